"""What every backend promises about the public register: loads, entities, rejected rows, codes."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from contracts.backends import ACME, refused
from contracts.knowledge import HOUR, MICRO, NOW, PARTS, entity, load, reject
from stoker.base.errors import ConflictError
from stoker.registry.model import IndustryCode, LoadCount

FIRST, SECOND, THIRD = "2026-01-31", "2026-02-28", "2026-03-31"


@pytest.fixture
def registry(backend):
    return backend.registry()


async def read(registry, one, *rows, now=NOW):
    """Read a whole file."""
    await registry.begin_load(one)
    count = await registry.load_entities(one, rows, now=now)
    return await registry.end_load(replace(one, count=count), now=now)


async def read_all(registry, release, rows=(), *, now=NOW, leave_out=()):
    """Read every part of a release, the rows in the first; return how the last of them ended."""
    parts = [part for part in PARTS if part not in leave_out]
    ended = [
        await read(
            registry, load(part, release=release), *(rows if part == parts[0] else ()), now=now
        )
        for part in parts
    ]
    return ended[-1]


def dated(row, at, **changes):
    return replace(row, changed_at=at, **changes)


async def test_an_entity_comes_back_as_it_was_dated_by_the_store(registry):
    full = entity(activity="ünï 🙂", street="1 ROAD", ssic_secondary="00000", company_type="x")
    bare = entity("T2", registered_on=None, officers=None, former_names=(), raw={}, live=False)
    given = [dated(full, NOW - HOUR, gone_at=NOW), bare]
    ended = await read(registry, load(), *given)
    assert ended.count == LoadCount(new=2)
    assert await registry.find_entity("T1") == dated(full, NOW)
    assert await registry.find_entity("T2") == dated(bare, NOW)
    assert await registry.find_entity("T3") is None


async def test_the_register_belongs_to_no_tenant_and_is_one(backend):
    await read(backend.registry(), load(), entity())
    assert await backend.registry().find_entity("T1") is not None
    assert await backend.tenant(ACME).ledger.list_entries() == []


async def test_only_what_differs_is_counted_as_changed_and_dated(registry):
    await read(registry, load(), entity("T1"), entity("T2"))
    renamed = entity("T2", name="NEW NAME")
    later = load(release=SECOND)
    ended = await read(registry, later, entity("T1"), renamed, entity("T3"), now=NOW + HOUR)
    assert ended.count == LoadCount(new=1, changed=1, same=1)
    assert await registry.find_entity("T1") == dated(entity("T1"), NOW)
    assert await registry.find_entity("T2") == dated(renamed, NOW + HOUR)


@pytest.mark.parametrize(
    "change",
    [
        {"live": False},
        {"registered_on": None},
        {"officers": 3},
        {"officers": None},
        {"former_names": ()},
        {"raw": {"uen": "T1"}},
        {"digest": "other"},
        {"ssic": "01111"},
    ],
)
async def test_whatever_differs_counts_also_when_the_digest_is_the_same(registry, change):
    await read(registry, load(), entity())
    ended = await read(registry, load(id="again"), entity(**change), now=NOW + HOUR)
    assert ended.count == LoadCount(changed=1)
    assert await registry.find_entity("T1") == dated(entity(**change), NOW + HOUR)


async def test_reading_a_row_twice_is_reading_it_once(registry):
    rows = [entity("T1"), entity("T1"), entity("T1", name="B"), entity("T1"), entity("T1")]
    ended = await read(registry, load(), *rows)
    assert ended.count == LoadCount(new=1, changed=2, same=2)
    assert await registry.find_entity("T1") == dated(entity("T1"), NOW)
    again = await read(registry, load(), entity("T1"), now=NOW + HOUR)
    assert again.count == LoadCount(same=1)
    assert await registry.list_changed_entities(since=NOW) == []


async def test_nothing_is_read_under_a_load_that_was_not_begun_or_has_ended(registry):
    one = load()
    for verb in (
        registry.load_entities(one, [entity()], now=NOW),
        registry.reject_rows(one, [reject()]),
        registry.end_load(one, now=NOW),
    ):
        await refused(verb, ConflictError)
    await read(registry, one)
    await refused(registry.load_entities(one, [entity()], now=NOW), ConflictError)
    await refused(registry.reject_rows(one, [reject()]), ConflictError)
    assert await registry.find_entity("T1") is None
    assert await registry.list_rejects() == []


async def test_a_load_begun_again_starts_over(registry):
    one = load()
    await registry.begin_load(one)
    await registry.reject_rows(one, [reject(1), reject(2)])
    await registry.end_load(replace(one, count=LoadCount(new=7, rejected=2)), now=NOW)
    await registry.begin_load(replace(one, began_at=NOW + HOUR, source="elsewhere", ended_at=NOW))
    assert await registry.list_loads() == [load(began_at=NOW + HOUR, source="elsewhere")]
    assert await registry.list_rejects() == []
    await registry.reject_rows(one, [reject(2)])
    [kept] = await registry.list_rejects()
    assert kept == reject(2, number=3)  # a number is never given twice


async def test_loads_are_listed_newest_first_with_their_counts(registry):
    ended = await read(registry, load("A"), entity(), now=NOW + MICRO)
    assert ended == load("A", ended_at=NOW + MICRO, count=LoadCount(new=1))
    later, same_time = load("B", began_at=NOW + HOUR), load("C")
    for one in (same_time, later):
        await registry.begin_load(one)
    assert await registry.list_loads() == [later, ended, same_time]
    assert await registry.list_loads(limit=1) == [later]


async def test_rejected_rows_are_kept_by_line_and_numbered_as_they_came(registry):
    a, b = load("A"), load("B")
    await registry.begin_load(a)
    await registry.begin_load(b)
    await registry.reject_rows(a, [reject(9, of=a), reject(3, of=a)])
    await registry.reject_rows(b, [reject(3, of=b)])
    await registry.reject_rows(a, [reject(9, of=a, reason="worse"), reject(4, of=a)])
    await registry.reject_rows(a, [])
    kept = await registry.list_rejects()
    assert [(one.number, one.load, one.line, one.reason) for one in kept] == [
        (1, a.id, 9, "worse"),
        (2, a.id, 3, "no number"),
        (3, b.id, 3, "no number"),
        (4, a.id, 4, "no number"),
    ]
    assert await registry.list_rejects(after=1, limit=2) == kept[1:3]


async def test_of_rejected_rows_one_of_which_cannot_be_kept_none_is(registry):
    await registry.begin_load(load())
    for bad in (reject(2, text="a\0"), reject(2, load="another"), reject(2**70)):
        await refused(registry.reject_rows(load(), [reject(1), bad]))
    assert await registry.list_rejects() == []


async def test_what_is_missing_from_a_part_of_a_release_is_not_gone(registry):
    await read_all(registry, FIRST, [entity("T1"), entity("T2")])
    await read_all(registry, SECOND, [entity("T2")], leave_out=["Q"])
    await registry.begin_load(load("Q", release=SECOND))  # begun is not ended
    await read(registry, load("Q", release=THIRD))  # another release does not complete it
    assert (await registry.find_entity("T1")).gone_at is None


async def test_what_a_whole_release_did_not_have_is_gone_and_has_changed(registry):
    await read_all(registry, FIRST, [entity("T1"), entity("T2")])
    last = await read_all(registry, SECOND, [entity("T2")], now=NOW + HOUR)
    assert (last.part, last.count) == ("Others", LoadCount(gone=1))
    assert await registry.find_entity("T1") == dated(entity("T1"), NOW + HOUR, gone_at=NOW + HOUR)
    assert await registry.find_entity("T2") == dated(entity("T2"), NOW)
    [changed] = await registry.list_changed_entities(since=NOW)
    assert changed.uen == "T1"


async def test_who_is_gone_is_marked_once(registry):
    await read_all(registry, FIRST, [entity("T1")])
    await read_all(registry, SECOND, now=NOW + HOUR)
    again = await read(registry, load("A", release=SECOND), now=NOW + 2 * HOUR)
    third = await read_all(registry, THIRD, now=NOW + 3 * HOUR)
    assert again.count.gone == third.count.gone == 0
    assert (await registry.find_entity("T1")).gone_at == NOW + HOUR


async def test_who_comes_back_is_no_longer_gone_and_has_changed(registry):
    await read_all(registry, FIRST, [entity("T1")])
    await read_all(registry, SECOND, now=NOW + HOUR)
    back = await read(
        registry, load("B", release=THIRD), entity("T1"), entity("T1"), now=NOW + 2 * HOUR
    )
    assert back.count == LoadCount(changed=1, same=1)
    assert await registry.find_entity("T1") == dated(entity("T1"), NOW + 2 * HOUR)
    rest = await read_all(registry, THIRD, leave_out=["B"], now=NOW + 3 * HOUR)
    assert rest.count.gone == 0


async def test_an_entity_that_moved_to_another_letter_is_not_gone(registry):
    await read_all(registry, FIRST, [entity("T1", name="ALPHA")])
    await read(registry, load("Z", release=SECOND), entity("T1", name="ZULU"), now=NOW + HOUR)
    last = await read_all(registry, SECOND, leave_out=["Z"], now=NOW + 2 * HOUR)
    assert last.count.gone == 0
    assert (await registry.find_entity("T1")).name == "ZULU"


async def test_an_older_release_that_ends_late_removes_no_company_seen_since(registry):
    await read_all(registry, FIRST, [entity("T1"), entity("T2")])
    await read(registry, load("A", release=THIRD), entity("T1"), now=NOW + HOUR)
    await read(registry, load("A", release=FIRST), entity("T1"), now=NOW + HOUR)
    last = await read_all(registry, SECOND, now=NOW + 2 * HOUR)
    assert last.count.gone == 1
    assert (await registry.find_entity("T1")).gone_at is None
    assert (await registry.find_entity("T2")).gone_at == NOW + 2 * HOUR


async def followed(registry, *, limit=3, since=None, after=""):
    """Return every change after a place, page by page, and the place reached."""
    found = []
    while page := await registry.list_changed_entities(since=since, after=after, limit=limit):
        found += page
        since, after = page[-1].changed_at, page[-1].uen
    return found, (since, after)


async def test_changes_are_listed_page_by_page_in_one_order(registry):
    await read(registry, load("A"), *(entity(f"T{n}") for n in (5, 1, 9, 3)))
    await read(registry, load("B"), entity("T0"), entity("T7"), now=NOW + HOUR)
    found, _ = await followed(registry)
    assert [one.uen for one in found] == ["T1", "T3", "T5", "T9", "T0", "T7"]
    assert [one.uen for one in await registry.list_changed_entities(since=NOW)] == ["T0", "T7"]
    assert [one.uen for one in await registry.list_changed_entities(since=NOW, after="T5")] == [
        "T9",
        "T0",
        "T7",
    ]
    assert await registry.list_changed_entities(limit=0) == []


async def test_a_reader_of_changes_misses_none_when_the_clock_goes_back(registry):
    one = load()
    await registry.begin_load(one)
    place, found = (None, ""), []
    for n, clock in enumerate([0, 0, -60, 0, 30, 30, -3600]):
        rows = [entity(f"T{9 - n}"), entity(f"T{n}", name=f"N{n}")]
        await registry.load_entities(one, rows, now=NOW + timedelta(seconds=clock))
        news, place = await followed(registry, since=place[0], after=place[1])
        found += [news_one.uen for news_one in news]
    assert found == [
        uen for n in range(7) for uen in sorted({f"T{9 - n}", f"T{n}"})
    ]  # fmt: skip


async def test_concurrent_loads_all_succeed_and_a_reader_of_changes_misses_nothing(registry):
    loads = [load(part) for part in PARTS[:6]]
    for one in loads:
        await registry.begin_load(one)

    async def fill(n, one):
        for batch in range(5):
            rows = [entity(f"T{n}-{batch}-{k}") for k in range(7)] + [entity("SHARED")]
            await registry.load_entities(one, rows, now=NOW - batch * HOUR)
            await registry.reject_rows(one, [reject(batch, of=one)])

    filling = asyncio.gather(*(fill(n, one) for n, one in enumerate(loads)))
    found, place = [], (None, "")
    while not filling.done():
        news, place = await followed(registry, limit=10, since=place[0], after=place[1])
        found += news
        await asyncio.sleep(0)  # a store without waits must let the others go on too
    await filling
    news, _ = await followed(registry, limit=10, since=place[0], after=place[1])
    uens = [one.uen for one in [*found, *news]]
    assert len(uens) == len(set(uens)) == 6 * 5 * 7 + 1
    assert [one.number for one in await registry.list_rejects()] == list(range(1, 31))


async def test_entities_are_counted_by_what_they_are(registry):
    rows = [
        entity("T1"),
        entity("T2", status="Struck Off", live=False, ssic=""),
        entity("T3", kind="Limited Partnership", status="Live", ssic="01111"),
        entity("T4"),
    ]
    await read_all(registry, FIRST, rows)
    await read_all(registry, SECOND, rows[:3], now=NOW + HOUR)
    assert await registry.count_entities() == {"Live": 1, "Live Company": 1, "Struck Off": 1}
    assert await registry.count_entities(by="kind") == {
        "Limited Partnership": 1,
        "Local Company": 2,
    }
    assert await registry.count_entities(by="division") == {"": 1, "01": 1, "62": 1}
    assert await registry.count_entities(by="state") == {"closed": 1, "gone": 1, "live": 2}
    for word in ("", "ssic", "status; DROP TABLE runs"):
        await refused(registry.count_entities(by=word))


def code(version, of, title="Title", level="subclass"):
    return IndustryCode(version=version, code=of, title=title, level=level)


async def test_a_classification_is_replaced_whole_and_versions_stand_side_by_side(registry):
    await registry.load_codes(
        "2020", [code("2020", "62011"), code("2020", "A", "Farms", "section")]
    )
    await registry.load_codes("2025", [code("2025", "62012", "ünï")])
    assert [one.code for one in await registry.list_codes("2020")] == ["62011", "A"]
    await registry.load_codes("2020", [code("2020", "01111")])
    assert await registry.list_codes("2020") == [code("2020", "01111")]
    assert await registry.list_codes("2025") == [code("2025", "62012", "ünï")]
    assert await registry.list_codes("1996") == []


async def test_a_classification_one_code_of_which_cannot_be_kept_changes_nothing(registry):
    await registry.load_codes("2020", [code("2020", "1")])
    for bad in (
        code("2025", "2"),
        code("2020", "1"),
        code("2020", ""),
        code("2020", "2", "\0"),
    ):
        await refused(registry.load_codes("2020", [code("2020", "1"), bad]))
    await refused(registry.list_codes(""))
    assert await registry.list_codes("2020") == [code("2020", "1")]
