import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.base.types import Depth, Step, is_storable
from stoker.enrichment.model import SkippedStep, SkipReason, WorkItem, WorkState
from stoker.enrichment.outcomes import (
    MAX_REASON_LENGTH,
    RETRY_NOTE,
    LookupLog,
    choose_end_state,
    format_steps_to_retry,
    parse_steps_to_retry,
    replace_url_with_vendor,
)
from stoker.testing import FakeClock

steps = st.sampled_from(list(Step))
shortfalls = st.lists(st.builds(SkippedStep, step=steps, cause=st.sampled_from(list(SkipReason))))


def lacks(*kinds):
    return [SkippedStep(step=Step.VERIFY, cause=kind) for kind in kinds]


@pytest.mark.parametrize(
    ("kinds", "state"),
    [
        ((), WorkState.DONE),
        ((SkipReason.NEVER,), WorkState.DONE),
        ((SkipReason.NEVER, SkipReason.REFUSED), WorkState.DEGRADED),
        ((SkipReason.LATER,), WorkState.DEGRADED),
        ((SkipReason.OFF,), WorkState.DEGRADED),
        ((SkipReason.REFUSED, SkipReason.UNKNOWN), WorkState.UNKNOWN),
    ],
)
def test_what_was_left_out_says_how_a_unit_ended(kinds, state):
    assert choose_end_state(lacks(*kinds)) is state


@given(shortfalls, st.frozensets(steps), st.frozensets(steps))
def test_what_is_owed_is_read_back_as_it_was_noted_with_what_it_feeds(found, before, tonight):
    owed = parse_steps_to_retry(
        {RETRY_NOTE: format_steps_to_retry(found, before=before, steps=tonight)}
    )
    lacking = {each.step for each in found if each.cause is not SkipReason.NEVER}
    assert owed >= lacking | (before - tonight)
    assert owed <= lacking | (before - tonight) | {Step.CONTACTS, Step.VERIFY}


@pytest.mark.parametrize(
    ("note", "steps"),
    [
        ("extract", {Step.EXTRACT, Step.CONTACTS, Step.VERIFY}),
        ("contacts", {Step.CONTACTS, Step.VERIFY}),
        ("verify", {Step.VERIFY}),
        ("crawl,export", {Step.CRAWL, Step.EXPORT}),
    ],
)
def test_who_is_found_late_is_verified_late(note, steps):
    assert parse_steps_to_retry({RETRY_NOTE: note}) == steps


@given(st.lists(st.text()))
def test_reasons_are_bounded_and_every_store_can_keep_them(texts):
    log = LookupLog(WorkItem(company="T1", rank=0, depth=Depth.DEEP), clock=FakeClock())
    for text in texts:
        log.record_skip(Step.VERIFY, SkipReason.LATER, "zerobounce", text)
    reasons = log.build_result().reasons
    assert len(set(reasons)) == len(reasons)
    assert all(is_storable(reason) and len(reason) <= MAX_REASON_LENGTH for reason in reasons)


@pytest.mark.parametrize("note", ["", "nonsense", ",,", "export,bogus"])
def test_a_note_nobody_of_us_wrote_owes_nothing_unknown(note):
    assert parse_steps_to_retry({RETRY_NOTE: note}) <= {Step.EXPORT}


@pytest.mark.parametrize(
    ("because", "told"),
    [
        ("https://api.test/v2/batch did not answer in time", "bolt did not answer in time"),
        ("http://127.0.0.1:81/v2 broke off", "bolt broke off"),
        ("bolt has no page https://own.test/", "bolt has no page https://own.test/"),
        ("this is no email address", "this is no email address"),
    ],
)
def test_a_vendor_is_named_and_not_where_it_was_asked(because, told):
    assert replace_url_with_vendor(because, vendor="bolt") == told
