from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.base.errors import ConfigError
from stoker.ledger.chain import FIRST_DIGEST, NewEntry, chain_entries, find_first_break

AT = datetime(2030, 1, 1, 12, tzinfo=UTC)

notes = st.builds(
    NewEntry,
    at=st.integers(-100, 100).map(lambda n: AT + n * timedelta(seconds=7)),
    kind=st.text(max_size=4),
    subject=st.text(max_size=4),
    reason=st.text(max_size=4),
    data=st.dictionaries(st.text(max_size=2), st.integers() | st.text(max_size=3), max_size=2),
)
histories = st.lists(notes, min_size=1, max_size=6)
CHANGES = {
    "seq": lambda entry: entry.seq + 1,
    "at": lambda entry: entry.at + timedelta(microseconds=1),
    "kind": lambda entry: entry.kind + "x",
    "subject": lambda entry: entry.subject + "x",
    "reason": lambda entry: entry.reason + "x",
    "data": lambda entry: {**entry.data, "extra": 1},
    "previous": lambda entry: "f" * 64,
    "digest": lambda entry: "f" * 64,
}


@given(histories)
def test_entries_are_numbered_from_one_without_gaps_and_each_points_to_the_one_before(notes):
    entries = chain_entries(notes, after=None)

    assert [entry.seq for entry in entries] == list(range(1, len(notes) + 1))
    assert [entry.previous for entry in entries] == [
        FIRST_DIGEST,
        *(e.digest for e in entries[:-1]),
    ]
    assert find_first_break(entries) is None


@given(histories, histories)
def test_adding_in_two_goes_gives_the_same_ledger_as_in_one(one, other):
    first = chain_entries(one, after=None)

    assert first + chain_entries(other, after=first[-1]) == chain_entries(one + other, after=None)


@given(histories, st.data())
def test_a_page_is_sound_by_itself_when_it_follows_the_entry_before_it(notes, data):
    entries = chain_entries(notes, after=None)
    cut = data.draw(st.integers(1, len(entries)))

    assert find_first_break(entries[cut:], after=entries[cut - 1]) is None


@given(histories, st.data(), st.sampled_from(sorted(CHANGES)))
def test_any_change_to_any_entry_breaks_the_chain_there(notes, data, field):
    entries = chain_entries(notes, after=None)
    place = data.draw(st.integers(0, len(entries) - 1))
    entries[place] = replace(entries[place], **{field: CHANGES[field](entries[place])})

    assert find_first_break(entries) == place + 1


@given(histories, st.data())
def test_an_entry_taken_out_before_the_last_breaks_the_chain(notes, data):
    entries = chain_entries(notes * 2, after=None)
    place = data.draw(st.integers(0, len(entries) - 2))
    del entries[place]

    assert find_first_break(entries) == place + 1


def test_two_entries_that_changed_places_break_the_chain():
    one, other = chain_entries([NewEntry(at=AT, kind="a", subject="", reason="")] * 2, after=None)

    assert find_first_break([other, one]) == 1


def test_the_same_moment_has_the_same_digest_in_every_zone():
    note = NewEntry(at=AT, kind="k", subject="s", reason="r")
    abroad = replace(note, at=AT.astimezone(ZoneInfo("Asia/Singapore")))

    [here], [there] = chain_entries([note], after=None), chain_entries([abroad], after=None)

    assert here.digest == there.digest


def test_a_note_without_a_zone_is_refused():
    with pytest.raises(ConfigError, match="no time zone"):
        chain_entries(
            [NewEntry(at=AT.replace(tzinfo=None), kind="", subject="", reason="")], after=None
        )
