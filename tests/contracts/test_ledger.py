"""What every store promises about the ledger: it grows, in one order, without gaps."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from contracts.backends import ACME, UMBRELLA, refused
from stoker.base.errors import ConfigError
from stoker.base.types import MAX_TEXT_LENGTH
from stoker.ledger.chain import FIRST_DIGEST, NewEntry, find_first_break

AT = datetime(2026, 2, 7, 1, 30, tzinfo=UTC)
NOTE = NewEntry(at=AT, kind="MISSED", subject="nightly", reason="nobody was there")
UNSTORABLE = ["a\0b", "half a pair \ud800", "x" * (MAX_TEXT_LENGTH + 1)]


def note(number):
    return replace(NOTE, subject=f"{number}")


async def test_an_entry_comes_back_as_its_note_went_in(store):
    data = {"n": 1, "x": 0.1, "yes": True, "none": None, "deep": {"list": [1, "čš", {"a": []}]}}
    odd = replace(
        NOTE,
        at=(AT + timedelta(microseconds=1)).astimezone(timezone(timedelta(hours=8))),
        reason="an emoji 🙂, a ' and a \"",
        data=data,
    )

    [written] = await store.ledger.append([odd])
    [read] = await store.ledger.list_entries()
    assert read == written
    assert (read.at, read.kind, read.subject) == (odd.at, odd.kind, odd.subject)
    assert (read.reason, read.data) == (odd.reason, data)
    assert read.at.tzinfo is UTC


async def test_entries_are_numbered_from_one_and_chained(store):
    first = await store.ledger.append([note(1), note(2)])
    assert await store.ledger.append([]) == []
    second = await store.ledger.append([note(3)])
    entries = await store.ledger.list_entries()
    assert entries == first + second
    assert [entry.seq for entry in entries] == [1, 2, 3]
    assert entries[0].previous == FIRST_DIGEST
    assert find_first_break(entries) is None


async def test_entries_are_ordered_by_number_not_by_time(store):
    await store.ledger.append([note(1)])
    await store.ledger.append([replace(note(2), at=AT - timedelta(days=1))])
    assert [entry.subject for entry in await store.ledger.list_entries()] == ["1", "2"]


async def test_callers_at_once_come_wholly_after_one_another(store):
    groups = [[note(f"{caller}.{n}") for n in range(3)] for caller in range(16)]
    answers = await asyncio.gather(*(store.ledger.append(group) for group in groups))
    entries = await store.ledger.list_entries()
    assert [entry.seq for entry in entries] == list(range(1, 49))
    assert find_first_break(entries) is None
    for group, answer in zip(groups, answers, strict=True):
        begin = answer[0].seq - 1
        assert entries[begin : begin + 3] == answer
        assert [entry.subject for entry in answer] == [one.subject for one in group]


async def test_pages_put_together_are_the_whole_ledger(store):
    whole = await store.ledger.append([note(n) for n in range(25)])
    entries = store.ledger.list_entries
    assert await entries(limit=10) == whole[:10]
    assert await entries(after=10, limit=10) == whole[10:20]
    assert await entries(after=20, limit=10) == whole[20:]
    assert await entries(after=25) == []


@pytest.mark.parametrize("text", UNSTORABLE, ids=["NUL", "half a pair", "too long"])
@pytest.mark.parametrize("field", ["kind", "subject", "reason", "data"])
async def test_text_that_cannot_be_kept_is_refused_whole(store, text, field):
    bad = replace(NOTE, **{field: {"list": [text]} if field == "data" else text})

    await refused(store.ledger.append([NOTE, bad]))
    assert await store.ledger.list_entries() == []


def deep():
    value = []
    for _ in range(100_000):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value", [float("nan"), float("-inf"), object(), deep()], ids=["nan", "inf", "object", "deep"]
)
async def test_what_json_cannot_say_is_refused_whole(store, value):
    bad = replace(NOTE, data={"value": value})
    await refused(store.ledger.append([NOTE, bad]))
    assert await store.ledger.list_entries() == []


async def test_a_moment_without_a_zone_is_refused_whole(store):
    naive = replace(NOTE, at=AT.replace(tzinfo=None))
    await refused(store.ledger.append([NOTE, naive]), ConfigError)
    assert await store.ledger.list_entries() == []


async def test_each_tenant_has_a_ledger_of_its_own(backend):
    acme, umbrella = backend.tenant(ACME).ledger, backend.tenant(UMBRELLA).ledger
    await acme.append([note(1), note(2)])
    [theirs] = await umbrella.append([note(3)])
    assert theirs.seq == 1
    assert await umbrella.list_entries() == [theirs]
    assert [entry.subject for entry in await acme.list_entries()] == ["1", "2"]
