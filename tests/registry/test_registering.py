"""Files of the register into the store: twice is once, and nobody is gone by mistake."""

import asyncio
from dataclasses import replace

import pytest

from contracts.backends import BACKENDS
from register_rows import row, text
from stoker.base.events import RegisterRead
from stoker.base.reasons import Reason
from stoker.registry.acra import RejectedRow
from stoker.registry.files import open_register_files
from stoker.registry.model import PARTS
from stoker.registry.releases import INCOMPLETE, LoadRefusal, RegistryFile
from stoker.registry.service import BATCH_SIZE, MAX_REJECTS, RegistryLoader
from stoker.testing import EventRecorder, FakeClock

ONE, TWO = "2025-09-30", "2025-12-31"


class Office:
    """A register and somebody who reads files into it."""

    def __init__(self, backend, home):
        self.store, self._home = backend.registry(), home
        self.clock, self.heard, self.told = FakeClock(), EventRecorder(), []
        self._registering = RegistryLoader(
            self.store, clock=self.clock, observer=self.heard, progress=self.told.append
        )

    def source(self, rows, *, release=ONE, part="Q", raw=b""):
        path = self._home / "register.csv"
        path.write_bytes(text(rows).encode() + raw)
        [file] = open_register_files(path)
        made = list(file.iter_rows())
        return RegistryFile(
            digest=file.digest,
            name=path.name,
            release=release,
            part=part,
            lines=file.lines,
            rows=lambda: iter(made),
        )

    async def read(self, rows, *, release=ONE, part="Q", raw=b"", **how):
        source = self.source(rows, release=release, part=part, raw=raw)
        return await self._registering.load_file(source, **how)

    async def get_body(self, release, rows=(), *, but="", **how):
        """Read every part of a release, all of them empty but Q."""
        for part in sorted(PARTS - {but}):
            await self.read(rows if part == "Q" else [], release=release, part=part, **how)

    async def everything(self):
        found = await self.store.list_changed_entities(limit=100_000)
        return {each.uen: each for each in found}


@pytest.fixture(params=BACKENDS)
def on_office(request, tmp_path):
    def run(scenario):
        async def whole():
            async with BACKENDS[request.param](tmp_path) as backend:
                return await scenario(Office(backend, tmp_path))

        return asyncio.run(whole())

    return run


@pytest.fixture
def office(tmp_path):
    def run(scenario):
        async def whole():
            async with BACKENDS["sqlite"](tmp_path) as backend:
                return await scenario(Office(backend, tmp_path))

        return asyncio.run(whole())

    return run


def rows(count, **said):
    return [row(index, **said) for index in range(1, count + 1)]


def test_a_file_is_read_and_the_same_file_again_changes_nothing(on_office):
    async def scenario(office):
        first = await office.read(rows(5))
        before = await office.everything()
        second = await office.read(rows(5))
        third = await office.read(rows(5), again=True)
        return first, second, third, before, await office.everything()

    first, second, third, before, after = on_office(scenario)
    assert (first.load.count.new, first.load.count.rows_read, first.is_repeat) == (5, 5, False)
    assert second.is_repeat
    assert (third.load.count.same, third.load.count.rows_read) == (5, 5)
    assert before == after
    assert len(after) == 5


def test_a_later_release_gives_the_difference_and_absence_from_one_part_is_no_end(on_office):
    async def scenario(office):
        await office.read(rows(10))
        later = [row(1, no_of_officers="9"), *rows(12)[1:9], row(11), row(12)]
        second = await office.read(later, release=TWO)
        return second.load.count, await office.everything()

    count, everything = on_office(scenario)
    assert (count.new, count.changed, count.same, count.gone) == (2, 1, 8, 0)
    assert len(everything) == 12
    assert all(entity.gone_at is None for entity in everything.values())


def test_whoever_is_missing_from_a_whole_later_register_is_gone(office):
    async def scenario(office):
        await office.get_body(ONE, rows(3))
        await office.get_body(TWO, rows(2))
        return await office.everything()

    gone = [uen for uen, entity in office(scenario).items() if entity.gone_at]
    assert gone == [row(3)["uen"]]


def test_a_row_that_cannot_be_read_makes_nobody_gone(office):
    """The naive way, ending the load as if all of it had been read, would."""
    bad = b"1,2,3\n"

    async def scenario(office):
        await office.get_body(ONE, rows(3))
        await office.get_body(TWO, but="Q")
        read = await office.read(rows(2), release=TWO, raw=bad)
        again = await office.read(rows(2), release=TWO, raw=bad)
        kept, rejects = await office.everything(), await office.store.list_rejects()
        naive = replace(read.load, id="naive", part="Q")
        await office.store.begin_load(naive)
        ended = await office.store.end_load(naive, now=office.clock.now())
        return read, again, kept, rejects, ended.count.gone

    read, again, everything, rejects, naively_gone = office(scenario)
    assert naively_gone == 1
    assert read.load.part == "Q" + INCOMPLETE
    assert (read.load.count.rejected, read.load.count.same) == (1, 2)
    assert again.is_repeat
    assert all(entity.gone_at is None for entity in everything.values())
    assert [(each.line, "cells" in each.reason) for each in rejects] == [(4, True)]


def test_a_part_that_lost_half_its_rows_is_refused_unless_that_is_wanted(office):
    async def scenario(office):
        await office.read(rows(40))
        before = await office.store.list_loads()
        refused = await office.read(rows(9), release=TWO)
        assert (type(refused), refused.reason) == (LoadRefusal, Reason.PART_SHRUNK)
        assert await office.store.list_loads() == before
        return await office.read(rows(9), release=TWO, force=True)

    assert office(scenario).load.count.same == 9


def test_an_older_release_is_refused_unless_that_is_wanted(office):
    async def scenario(office):
        await office.read(rows(3, no_of_officers="7"), release=TWO)
        assert (await office.read(rows(3), release=ONE)).reason is Reason.RELEASE_PASSED
        kept = await office.everything()
        forced = await office.read(rows(3), release=ONE, force=True)
        return kept, forced

    kept, forced = office(scenario)
    assert {entity.officers for entity in kept.values()} == {7}
    assert forced.load.count.changed == 3


def test_a_release_still_to_come_is_refused_unless_that_is_wanted(office):
    async def read(office):
        await office.read(rows(1), release="2030-01-02")  # the day is the first where we are
        for release in ("2030-01-03", "2052-12-31", "9999-12-31"):
            refused = await office.read(rows(2), release=release)
            assert refused.reason is Reason.RELEASE_TO_COME
            assert f"{release}, which is still to come" in refused.message
        assert len(await office.everything()) == 1
        forced = await office.read(rows(2), release="2030-01-03", force=True)
        assert forced.load.count.new == 1

    office(read)


def test_the_same_file_in_a_later_release_is_read_for_that_release(office):
    async def scenario(office):
        await office.read(rows(3))
        return await office.read(rows(3), release=TWO)

    later = office(scenario)
    assert (later.is_repeat, later.load.release, later.load.count.same) == (False, TWO, 3)


def test_parts_with_the_same_content_are_loads_of_their_own(office):
    async def scenario(office):
        await office.get_body(ONE)
        return {load.part for load in await office.store.list_loads() if load.ended_at}

    assert office(scenario) == PARTS


def test_a_reading_that_broke_off_is_taken_up_and_every_row_is_in_once(on_office):
    count = 3 * BATCH_SIZE

    async def scenario(office):
        whole = office.source(rows(count))
        made = list(whole.rows())

        def breaking():
            yield from made[: 2 * BATCH_SIZE + 7]
            raise OSError("the disk has gone")

        broken = RegistryFile(
            digest=whole.digest,
            name=whole.name,
            release=ONE,
            part="Q",
            lines=whole.lines,
            rows=breaking,
        )
        reading = RegistryLoader(office.store, clock=office.clock, observer=office.heard)
        with pytest.raises(OSError, match="disk"):
            await reading.load_file(broken)
        [left] = await office.store.list_loads()
        done = await reading.load_file(whole)
        return left, done, await office.store.count_entities(by="state")

    left, done, counts = on_office(scenario)
    assert left.ended_at is None
    assert not done.is_repeat
    assert (done.load.count.same, done.load.count.new) == (
        2 * BATCH_SIZE,
        BATCH_SIZE,
    )
    assert counts == {"live": count}


def test_progress_is_told_batch_by_batch_and_the_end_as_an_event(office):
    count = BATCH_SIZE + 10

    async def scenario(office):
        await office.read(rows(count))
        return office.told, office.heard.of_type(RegisterRead)

    told, [event] = office(scenario)
    assert told == [BATCH_SIZE, count]
    assert (event.rows, event.new, event.part) == (count, count, "Q")
    assert str(count) in event.message()


def test_doubts_are_counted_by_kind_and_their_rows_are_kept(office):
    odd = [row(1), row(2, uen="T23VC0219C"), row(3, entity_status_description="Asleep")]

    async def scenario(office):
        return await office.read(odd)

    read = office(scenario)
    assert read.load.count.new == 3
    assert read.doubts == {
        "number of a kind not known": 1,
        "status not known, taken as closed": 1,
    }


def test_of_a_file_full_of_nonsense_only_so_many_rows_are_kept_but_all_are_counted(office):
    many = MAX_REJECTS + 500

    async def scenario(office):
        source = RegistryFile(
            digest="d",
            name="nonsense.csv",
            release=ONE,
            part="nonsense.csv",
            lines=many,
            rows=lambda: (RejectedRow(line, "it is nonsense", "?") for line in range(many)),
        )
        reading = RegistryLoader(office.store, clock=office.clock, observer=office.heard)
        read = await reading.load_file(source)
        return read.load.count.rejected, len(await office.store.list_rejects(limit=2 * many))

    assert office(scenario) == (many, MAX_REJECTS)
