from hypothesis import given
from hypothesis import strategies as st

from stoker.accounts.model import CompanyId
from stoker.base.types import Depth
from stoker.enrichment.model import WorkItem, WorkState
from stoker.enrichment.summary import MAX_REASONS, SummaryBuilder
from stoker.runs.model import RunState

amounts = st.dictionaries(st.sampled_from(["tavily/calls", "crawl/pull_units"]), st.integers(0, 9))
units = st.lists(
    st.builds(
        WorkItem,
        company=st.text("abc", min_size=1).map(CompanyId),
        rank=st.integers(0, 99),
        depth=st.sampled_from(list(Depth)),
        state=st.sampled_from(list(WorkState)),
        reasons=st.lists(st.text("xyz", min_size=1), max_size=3).map(tuple),
        cost=amounts,
        seconds=st.dictionaries(st.sampled_from(["crawl", "verify"]), st.floats(0, 100)),
    )
)


def summary(*pages):
    tally = SummaryBuilder()
    for page in pages:
        tally.add(page)
    return tally.build()


@given(units, units)
def test_adding_up_page_by_page_is_adding_up_at_once(one, other):
    assert summary(one, other) == summary([*one, *other])


@given(units)
def test_a_night_adds_up_to_what_its_units_say(all_of_them):
    told = summary(all_of_them)
    assert sum(told.states.values()) == len(told.selected) == len(all_of_them)
    for name, amount in told.cost.items():
        assert amount == sum(unit.cost.get(name, 0) for unit in all_of_them)
    assert len(told.reasons) <= MAX_REASONS


@given(units)
def test_a_night_is_done_only_when_nothing_was_left_out(all_of_them):
    state, reason = summary(all_of_them).compute_outcome()
    whole = {unit.state for unit in all_of_them} <= {WorkState.DONE}
    assert (state is RunState.DONE) == whole
    assert bool(reason) == any(unit.state is not WorkState.DONE for unit in all_of_them)


@given(units)
def test_what_remains_is_what_was_never_looked_at(all_of_them):
    left = {WorkState.WAITING, WorkState.CLAIMED, WorkState.DROPPED}
    expected = [unit.company for unit in all_of_them if unit.state in left]
    assert list(summary(all_of_them).remaining) == expected


def test_the_same_trouble_at_two_sites_is_counted_as_one_reason():
    troubled = [
        WorkItem(
            company=CompanyId(name),
            rank=place,
            depth=Depth.DEEP,
            reasons=(f"crawl: failed, http://{name}.test/ did not answer in time",),
        )
        for place, name in enumerate(("one", "two"))
    ]
    assert summary(troubled).reasons == ("2 × crawl: failed, its site did not answer in time",)


def test_only_a_visit_is_to_the_companys_own_site():
    def with_reason(because):
        return WorkItem(company=CompanyId("a"), rank=0, depth=Depth.DEEP, reasons=(because,))

    gone = [with_reason(f"extract: nothing could be read at https://{n}.test/a") for n in "ab"]
    left = [with_reason("https://own.test/ says it is another's; it is left alone")]
    assert summary(gone + left).reasons == (
        "2 × extract: nothing could be read at an address",
        "1 × its site says it is another's; it is left alone",
    )


def test_a_cap_that_refuses_many_is_one_reason_however_much_each_of_them_needed():
    def refused(left, needed):
        cap = f"tokens/day has {left} of 15000 left, {needed} needed"
        because = f"extract: openai was not asked: {cap}"
        return WorkItem(company=CompanyId("a"), rank=0, depth=Depth.DEEP, reasons=(because,))

    told = summary([refused(6091, 7715), refused(1296, 6312)])
    assert told.reasons == (
        "2 × extract: openai was not asked: tokens/day had too little of its 15000 left",
    )
