"""Files of the register into the store: twice is once, and no entity is gone by mistake."""

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
from stoker.registry.service import BATCH_SIZE, MAX_REJECTS, MAX_STATUSES, RegistryLoader
from stoker.testing import EventRecorder, FakeClock

ONE, TWO = "2025-09-30", "2025-12-31"
on_every_backend = pytest.mark.parametrize("office", BACKENDS, indirect=True)


class Office:
    """A register, and what reads files into it."""

    def __init__(self, backend, home):
        self.store, self._home = backend.registry(), home
        self.clock, self.heard, self.told = FakeClock(), EventRecorder(), []
        self.loader = RegistryLoader(
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
        return await self.loader.load_file(source, **how)

    async def read_all_parts(self, release, rows=(), *, but="", **how):
        """Read every part of a release, all of them empty but Q."""
        for part in sorted(PARTS - {but}):
            await self.read(rows if part == "Q" else [], release=release, part=part, **how)

    async def everything(self):
        found = await self.store.list_changed_entities(limit=100_000)
        return {each.uen: each for each in found}


@pytest.fixture
def office(request, tmp_path, runner):
    opening = BACKENDS[getattr(request, "param", "sqlite")](tmp_path)
    yield Office(runner.run(opening.__aenter__()), tmp_path)
    runner.run(opening.__aexit__(None, None, None))


def rows(count, **said):
    return [row(index, **said) for index in range(1, count + 1)]


@on_every_backend
async def test_a_file_is_read_and_the_same_file_again_changes_nothing(office):
    first = await office.read(rows(5))
    before = await office.everything()
    second = await office.read(rows(5))
    third = await office.read(rows(5), again=True)

    assert (first.load.count.new, first.load.count.rows_read, first.is_repeat) == (5, 5, False)
    assert second.is_repeat
    assert (third.load.count.same, third.load.count.rows_read) == (5, 5)
    assert await office.everything() == before
    assert len(before) == 5


@on_every_backend
async def test_a_later_release_gives_the_difference_and_absence_from_one_part_is_no_end(office):
    await office.read(rows(10))
    later = [row(1, no_of_officers="9"), *rows(12)[1:9], row(11), row(12)]
    count = (await office.read(later, release=TWO)).load.count
    everything = await office.everything()

    assert (count.new, count.changed, count.same, count.gone) == (2, 1, 8, 0)
    assert len(everything) == 12
    assert all(entity.gone_at is None for entity in everything.values())


async def test_an_entity_missing_from_a_whole_later_register_is_gone(office):
    await office.read_all_parts(ONE, rows(3))
    await office.read_all_parts(TWO, rows(2))
    gone = [uen for uen, entity in (await office.everything()).items() if entity.gone_at]
    assert gone == [row(3)["uen"]]
    # Empty parts have equal content, and are loads of their own.
    assert {load.part for load in await office.store.list_loads() if load.ended_at} == PARTS


async def test_a_row_that_cannot_be_read_makes_no_entity_gone(office):
    """Ending the load as if all of it had been read would."""
    bad = b"1,2,3\n"
    await office.read_all_parts(ONE, rows(3))
    await office.read_all_parts(TWO, but="Q")
    read = await office.read(rows(2), release=TWO, raw=bad)
    again = await office.read(rows(2), release=TWO, raw=bad)
    everything, rejects = await office.everything(), await office.store.list_rejects()
    assert read.load.part == "Q" + INCOMPLETE
    assert (read.load.count.rejected, read.load.count.same) == (1, 2)
    assert again.is_repeat
    assert all(entity.gone_at is None for entity in everything.values())
    assert [(each.line, "cells" in each.reason) for each in rejects] == [(4, True)]

    naive = replace(read.load, id="naive", part="Q")
    await office.store.begin_load(naive)
    assert (await office.store.end_load(naive, now=office.clock.now())).count.gone == 1


async def test_a_part_that_lost_half_its_rows_is_refused_unless_forced(office):
    await office.read(rows(40))
    before = await office.store.list_loads()
    refused = await office.read(rows(9), release=TWO)
    assert (type(refused), refused.reason) == (LoadRefusal, Reason.PART_SHRUNK)
    assert await office.store.list_loads() == before
    assert (await office.read(rows(9), release=TWO, force=True)).load.count.same == 9


async def test_an_older_release_is_refused_unless_forced(office):
    await office.read(rows(3, no_of_officers="7"), release=TWO)
    assert (await office.read(rows(3), release=ONE)).reason is Reason.RELEASE_PASSED
    assert {entity.officers for entity in (await office.everything()).values()} == {7}
    assert (await office.read(rows(3), release=ONE, force=True)).load.count.changed == 3


async def test_an_older_release_of_another_part_is_read(office):
    await office.read(rows(3), release=TWO, part="A")
    assert (await office.read(rows(4)[3:], release=ONE, part="Q")).load.count.new == 1
    assert (await office.read(rows(2), release=ONE, part="A")).reason is Reason.RELEASE_PASSED


async def test_a_release_still_to_come_is_refused_unless_forced(office):
    await office.read(rows(1), release="2030-01-02")  # the day is the first where we are
    for release in ("2030-01-03", "9999-12-31"):
        refused = await office.read(rows(2), release=release)
        assert refused.reason is Reason.RELEASE_TO_COME
    assert len(await office.everything()) == 1
    assert (await office.read(rows(2), release="2030-01-03", force=True)).load.count.new == 1


async def test_the_same_file_in_a_later_release_is_read_for_that_release(office):
    await office.read(rows(3))
    later = await office.read(rows(3), release=TWO)
    assert (later.is_repeat, later.load.release, later.load.count.same) == (False, TWO, 3)


@on_every_backend
async def test_a_reading_that_broke_off_is_taken_up_and_every_row_is_in_once(office):
    whole = office.source(rows(3 * BATCH_SIZE))

    def breaking():
        yield from list(whole.rows())[: 2 * BATCH_SIZE + 7]
        raise OSError("the disk has gone")

    with pytest.raises(OSError, match="disk"):
        await office.loader.load_file(replace(whole, rows=breaking))
    [left] = await office.store.list_loads()
    done = await office.loader.load_file(whole)

    assert left.ended_at is None
    assert not done.is_repeat
    assert (done.load.count.same, done.load.count.new) == (2 * BATCH_SIZE, BATCH_SIZE)
    assert await office.store.count_entities(by="state") == {"live": 3 * BATCH_SIZE}


async def test_progress_comes_batch_by_batch_and_the_end_as_an_event(office):
    count = BATCH_SIZE + 10
    await office.read(rows(count))
    [event] = office.heard.of_type(RegisterRead)
    assert office.told == [BATCH_SIZE, count]
    assert (event.rows, event.new, event.part) == (count, count, "Q")


async def test_doubts_are_counted_by_kind_and_their_rows_are_kept(office):
    odd = [row(1), row(2, uen="T23VC0219C"), row(3, entity_status_description="Asleep")]
    read = await office.read(odd)
    assert read.load.count.new == 3
    assert read.doubts == {"number of a kind not known": 1, "status not known, taken as closed": 1}


async def test_statuses_that_are_not_known_are_named_and_counted_up_to_a_limit(office):
    known = [row(1), row(2, entity_status_description="Struck Off")]
    odd = ["Asleep", "In  Dispute", "Asleep", "z" * 200]
    read = await office.read(
        known + [row(3 + n, entity_status_description=status) for n, status in enumerate(odd)]
    )
    assert read.unknown_statuses == {"Asleep": 2, "In Dispute": 1, "z" * 60: 1}
    assert read.doubts == {"status not known, taken as closed": 4}
    assert read.load.count.new == 6

    many = rows(MAX_STATUSES + 5)
    for n, each in enumerate(many):
        each["entity_status_description"] = f"Odd {n}"
    read = await office.read(many, release=TWO)
    assert len(read.unknown_statuses) == MAX_STATUSES
    assert read.doubts == {"status not known, taken as closed": MAX_STATUSES + 5}


async def test_of_a_file_full_of_nonsense_so_many_rows_are_stored_but_all_are_counted(office):
    many = MAX_REJECTS + 500
    source = RegistryFile(
        digest="d",
        name="nonsense.csv",
        release=ONE,
        part="nonsense.csv",
        lines=many,
        rows=lambda: (RejectedRow(line, "it is nonsense", "?") for line in range(many)),
    )
    read = await office.loader.load_file(source)
    assert read.load.count.rejected == many
    assert len(await office.store.list_rejects(limit=2 * many)) == MAX_REJECTS
