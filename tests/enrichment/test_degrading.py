import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.base.types import Step, storable
from stoker.enrichment.model import UnitState
from stoker.enrichment.shortfalls import (
    LONGEST_REASON,
    OWED,
    Lack,
    Shortfall,
    ended_as,
    owed_after,
    owed_by,
    reasons_of,
    told_by_name,
)

steps = st.sampled_from(list(Step))
shortfalls = st.lists(
    st.builds(Shortfall, step=steps, lack=st.sampled_from(list(Lack)), because=st.text())
)


def lacks(*kinds):
    return [Shortfall(step=Step.VERIFY, lack=kind, because="so") for kind in kinds]


@pytest.mark.parametrize(
    ("kinds", "state"),
    [
        ((), UnitState.DONE),
        ((Lack.NEVER,), UnitState.DONE),
        ((Lack.NEVER, Lack.REFUSED), UnitState.DEGRADED),
        ((Lack.LATER,), UnitState.DEGRADED),
        ((Lack.OFF,), UnitState.DEGRADED),
        ((Lack.REFUSED, Lack.UNKNOWN), UnitState.UNKNOWN),
    ],
)
def test_what_was_left_out_says_how_a_unit_ended(kinds, state):
    assert ended_as(lacks(*kinds)) is state


@given(shortfalls, st.frozensets(steps), st.frozensets(steps))
def test_what_is_owed_is_read_back_as_it_was_noted_with_what_it_feeds(found, before, tonight):
    owed = owed_by({OWED: owed_after(found, before=before, steps=tonight)})
    lacking = {each.step for each in found if each.lack is not Lack.NEVER}
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
    assert owed_by({OWED: note}) == steps


@given(shortfalls)
def test_reasons_are_bounded_and_every_store_can_keep_them(found):
    reasons = reasons_of(found)
    assert len(set(reasons)) == len(reasons)
    assert all(storable(reason) and len(reason) <= LONGEST_REASON for reason in reasons)


@pytest.mark.parametrize("note", ["", "nonsense", ",,", "export,bogus"])
def test_a_note_nobody_of_us_wrote_owes_nothing_unknown(note):
    assert owed_by({OWED: note}) <= {Step.EXPORT}


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
    assert told_by_name(because, vendor="bolt") == told
