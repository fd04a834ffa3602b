"""What a discovery adds up to, written into a manifest and read back."""

from hypothesis import given
from hypothesis import strategies as st

from stoker.discovery.sources import (
    MAX_REASONS,
    SourceReport,
    SourceState,
    build_counts,
    compute_outcome,
    list_reasons,
    parse_source_counts,
)
from stoker.runs.model import RunState

counts = st.integers(0, 10**6)
reports = st.lists(
    st.builds(
        SourceReport,
        name=st.builds("file:{}.csv".format, st.text(max_size=9)),
        state=st.sampled_from(SourceState),
        reason=st.sampled_from(["", "it is away"]),
        listed=counts,
        new=counts,
        gone=counts,
        twins=counts,
        rejected=counts,
        requests=counts,
    ),
    max_size=5,
    unique_by=lambda report: report.name,
)


@given(reports)
def test_every_sources_numbers_come_back_and_add_up(reports):
    kept = build_counts(reports, {"kept": 3})
    found = parse_source_counts(kept)

    assert list(found) == [each.name for each in reports]
    for each in reports:
        assert found[each.name] == {
            "state": each.state,
            "listed": each.listed,
            "new": each.new,
            "gone": each.gone,
            "twins": each.twins,
            "rejected": each.rejected,
            "requests": each.requests,
        }
    assert kept["listed"] == sum(each.listed for each in reports)
    assert (kept["kept"], kept["sources"]) == (3, len(reports))


@given(reports)
def test_a_source_that_fails_fails_alone(reports):
    failed = [each for each in reports if each.state is SourceState.FAILED]
    state, reason = compute_outcome(reports)

    if not failed:
        assert (state, reason) == (RunState.DONE, "")
    else:
        assert state is (RunState.FAILED if len(failed) == len(reports) else RunState.PARTIAL)
        assert failed[0].name in reason


def test_reasons_are_told_so_far_and_counted_all():
    bad = [f"line {number}" for number in range(MAX_REASONS + 5)]
    failed = SourceReport(name="lever:x", state=SourceState.FAILED, reason="it is away")
    told = list_reasons([failed], rejects=bad)

    assert told[0] == "lever:x failed: it is away"
    assert len(told) == MAX_REASONS + 2
    assert told[-1] == "and 5 more of the kind"
    assert list_reasons([], rejects=[]) == ()
