"""Discovery, source by source: what is kept, what is new, gone, twice there; who fails, alone."""

import asyncio
import weakref
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from stoker.accounts.model import Company, CompanyId
from stoker.backends.sqlite import MemoryBackend
from stoker.base.errors import ConfigError, PermanentError, TransientError
from stoker.base.events import SourceFailed
from stoker.base.types import TenantId
from stoker.discovery.files import PostingFiles
from stoker.discovery.model import Postings, RawPosting, Validators, parse_postings
from stoker.discovery.run import MAX_ATTEMPTS, DiscoveryRun
from stoker.discovery.settings import DiscoverySettings
from stoker.discovery.sources import SourceState, parse_source, parse_source_counts
from stoker.heat.settings import HeatSettings
from stoker.runs.leases import LeaseHolder
from stoker.runs.model import Manifest, RunState
from stoker.runs.service import Runner
from stoker.runs.settings import RetentionRule
from stoker.testing import EventRecorder, FakeClock

ACME = TenantId("acme")
DAY = timedelta(days=1)


def raws(*titles, company="Acme", text=""):
    return [
        RawPosting(
            where=f"item {nth}",
            url=f"https://jobs.lever.co/{company}/{title.replace(' ', '-')}",
            title=title,
            company=company,
            text=text,
        )
        for nth, title in enumerate(titles)
    ]


def listing(*titles, etag="", kind="lever", **more):
    return parse_postings(kind, raws(*titles, **more), validators=Validators(etag=etag))


class Scripted:
    """A source that says what it is told to: batches, or an error to raise."""

    def __init__(self, *says):
        self.says, self.asked = says, []

    async def read(self, known):
        self.asked.append(known)
        for each in self.says:
            if isinstance(each, Exception):
                raise each
            if known is not None and known.etag and each.validators == known:
                yield Postings(unchanged=True, validators=known)
                return
            yield each


class Shaky:
    """A part of a store of which one verb fails once, before or after it is done."""

    def __init__(self, real, verb, *, done):
        self._real, self._verb, self._done, self._failed = real, verb, done, False

    def __getattr__(self, name):
        real = getattr(self._real, name)

        async def fails_once(*given, **named):
            if self._failed:
                return await real(*given, **named)
            self._failed = True
            if self._done:
                await real(*given, **named)
            raise TransientError("the store is away")

        return fails_once if name == self._verb else real


class ShakyBackend(MemoryBackend):
    def __init__(self, part, verb, *, done):
        super().__init__()
        store = super().tenant(ACME)
        shaky = Shaky(getattr(store, part), verb, done=done)
        self._shaky = replace(store, **{part: shaky})

    def tenant(self, tenant):
        return self._shaky


class World:
    """One tenant's discoveries on a clock turned by hand."""

    def __init__(self, tmp_path, *, backend=None, **sources):
        self.backend, self.clock, self.heard = (
            backend or MemoryBackend(),
            FakeClock(),
            EventRecorder(),
        )
        self.store = self.backend.tenant(ACME)
        self.out, self.sources = tmp_path, sources

    def discover(self, *, files=True, concurrency=4, retention=None, **settings):
        wanted = tuple(parse_source(f"lever:{name}") for name in self.sources)
        work = DiscoveryRun(
            DiscoverySettings(sources=wanted, **settings),
            heat=HeatSettings(),
            read_source=lambda source, known: self.sources[source.address].read(known),
            files=PostingFiles(self.out) if files else None,
            concurrency=concurrency,
            retention=retention,
        )
        leases = LeaseHolder(
            owner="me", clock=self.clock, observer=self.heard, length=timedelta(seconds=30)
        )
        store = self.backend.tenant(ACME)
        run = asyncio.run(Runner(leases=leases).run_now(store, work, manifest=Manifest()))
        self.clock.advance(DAY)
        return run

    def counts(self, run, name):
        return parse_source_counts(run.manifest.counts)[f"lever:{name}"]

    def titles(self, run):
        return sorted(job.title for job in asyncio.run(self.store.runs.list_jobs(run.at)))

    def written(self):
        return {path.name: path.read_bytes() for path in sorted(self.out.iterdir())}


@pytest.fixture
def world(tmp_path):
    return lambda **sources: World(tmp_path / "out", **sources)


def test_without_being_asked_only_postings_are_kept_and_written(world):
    here = world(a=Scripted(listing("Cook", "Data Engineer")))
    run = here.discover()

    assert (run.state, run.reason) == (RunState.DONE, "")
    assert here.titles(run) == ["Cook", "Data Engineer"]
    assert asyncio.run(here.store.runs.list_enriched(run.at)) == []
    assert list(here.written()) == [
        f"jobs_discovered_{run.name}.csv",
        f"jobs_discovered_{run.name}.summary.json",
    ]
    assert [timing.step for timing in run.manifest.steps] == ["read", "signals", "export"]


def test_a_source_that_fails_is_told_of_and_the_others_go_on(world):
    here = world(
        a=Scripted(PermanentError("there is no such board")),
        b=Scripted(listing("Cook")),
        c=Scripted(ConfigError("the file is away")),
    )
    run = here.discover()

    assert run.state is RunState.PARTIAL
    assert run.reason.startswith("2 of 3 sources could not be read; lever:a: there is no such")
    assert here.titles(run) == ["Cook"]
    assert run.manifest.remaining == ("lever:a", "lever:c")
    assert "lever:a failed: there is no such board" in run.manifest.reasons
    assert [event.source for event in here.heard.of_type(SourceFailed)] == ["lever:a", "lever:c"]
    assert here.counts(run, "a")["state"] == "failed"
    states = {each.name: each.state for each in asyncio.run(here.store.listings.list_sources())}
    assert states["lever:a"] is SourceState.FAILED
    assert states["lever:b"] is SourceState.READ


def test_a_source_that_breaks_off_leaves_what_came_before(world):
    here = world(a=Scripted(listing("Cook"), TransientError("the line is cut")))
    asyncio.run(here.store.accounts.upsert_companies(COMPANIES, now=here.clock.now()))
    run = here.discover()
    assert (run.state, here.titles(run)) == (RunState.FAILED, ["Cook"])
    assert run.manifest.counts["signals"] == 1
    assert len(here.sources["a"].asked) == 1  # what was read once is not read twice


@pytest.mark.parametrize(
    ("error", "asked"),
    [
        (TransientError("busy"), MAX_ATTEMPTS),
        (TransientError("busy", retry_after=timedelta(seconds=30)), MAX_ATTEMPTS),
        (TransientError("busy", retry_after=timedelta(minutes=30)), 1),
        (PermanentError("gone"), 1),
    ],
)
def test_a_source_that_asks_for_a_moment_gets_it_and_no_more(world, error, asked):
    here = world(a=Scripted(error))
    here.discover()
    assert len(here.sources["a"].asked) == asked


def test_a_source_that_comes_back_in_time_is_read(world):
    class Moody(Scripted):
        async def read(self, known):
            self.asked.append(known)
            if len(self.asked) < MAX_ATTEMPTS:
                raise TransientError("busy")
            yield listing("Cook")

    here = world(a=Moody())
    assert here.discover().state is RunState.DONE


def test_what_is_new_and_what_is_gone_is_counted(world):
    here = world(a=Scripted(listing("Cook", "Clerk", "Baker")))
    first = here.discover()
    here.sources["a"] = Scripted(listing("Clerk", "Driver"))
    second = here.discover()

    assert here.counts(first, "a")["new"] == 3
    now = here.counts(second, "a")
    assert (now["listed"], now["new"], now["gone"]) == (2, 1, 2)
    assert here.titles(second) == ["Clerk", "Driver"]
    here.sources["a"] = Scripted(listing("Cook"))
    back = here.counts(here.discover(), "a")
    assert (back["new"], back["gone"]) == (0, 2)


def test_an_unchanged_source_gives_the_same_run_without_being_read(world):
    source = Scripted(listing("Cook", "Data Engineer", etag="v1"))
    here = world(a=source)
    first, second = here.discover(enrich=True), here.discover(enrich=True)

    assert source.asked == [None, Validators(etag="v1")]
    assert here.counts(second, "a")["state"] == "unchanged"
    assert here.counts(second, "a")["listed"] == 2
    assert here.titles(second) == here.titles(first)
    files = here.written()
    for name in ("jobs_discovered_{}.csv", "jobs_enriched_{}.json", "jobs_scored_{}.csv"):
        assert files[name.format(first.name)] == files[name.format(second.name)]


def test_a_source_is_read_anew_when_what_it_listed_is_not_all_remembered(world):
    source = Scripted(listing("Cook", "Clerk", etag="v1"))
    here = world(a=source)
    here.discover()
    asyncio.run(here.store.listings.delete_listings(before=here.clock.now(), limit=1))
    run = here.discover()
    assert source.asked == [None, None]
    assert here.titles(run) == ["Clerk", "Cook"]


def test_a_source_is_read_anew_when_we_have_learnt_to_read_better(world):
    source = Scripted(listing("Cook", etag="v1"))
    here = world(a=source)
    here.discover()
    (seen,) = asyncio.run(here.store.listings.list_sources())
    asyncio.run(here.store.listings.save_source(replace(seen, version=seen.version - 1)))
    here.discover()
    assert source.asked == [None, None]


def test_a_source_that_was_not_whole_and_is_unchanged_is_still_not(world):
    cut = replace(listing("Cook", etag="1"), truncated=True)
    here = world(a=Scripted(cut))
    first, second = here.discover(), here.discover()
    assert here.counts(second, "a")["state"] == "unchanged"
    assert (first.state, first.manifest.reasons) == (RunState.DONE, second.manifest.reasons)
    assert second.manifest.reasons == (
        "lever:a is incomplete: it lists more than is taken from one source",
    )

    here.sources["a"] = Scripted(listing("Cook", etag="2"))
    assert here.discover().manifest.reasons == ()
    (seen,) = asyncio.run(here.store.listings.list_sources())
    assert seen.reason == ""


def test_after_a_failure_a_source_is_asked_with_what_was_known_before(world):
    source = Scripted(listing("Cook", etag="v1"))
    here = world(a=source)
    here.discover()
    here.sources["a"] = Scripted(PermanentError("away"))
    here.discover()
    here.sources["a"] = source
    run = here.discover()
    assert source.asked == [None, Validators(etag="v1")]
    assert here.titles(run) == ["Cook"]


def test_the_same_opening_at_two_sources_is_kept_once_and_counted(world):
    here = world(
        a=Scripted(listing("Cook", "Cook two")),
        b=Scripted(listing("Cook", "Clerk", kind="feed")),
        c=Scripted(listing("Clerk", kind="file")),
    )
    run = here.discover()

    assert here.titles(run) == ["Clerk", "Cook", "Cook two"]
    assert [here.counts(run, name)["twins"] for name in "abc"] == [0, 1, 1]
    assert run.manifest.counts["twins"] == 2
    again = here.discover()
    assert [here.counts(again, name)["twins"] for name in "abc"] == [0, 1, 1]


def test_a_twin_comes_forward_when_the_first_is_gone(world):
    here = world(a=Scripted(listing("Cook")), b=Scripted(listing("Cook", etag="v1", kind="feed")))
    assert len(here.titles(here.discover())) == 1
    here.sources["a"] = Scripted(listing("Clerk"))
    run = here.discover()
    assert here.titles(run) == ["Clerk", "Cook"]
    assert here.counts(run, "b")["state"] == "unchanged"


def test_bad_postings_are_told_with_their_place(world):
    bad = parse_postings("lever", [RawPosting(where="item 7", title="Cook")])
    run = world(a=Scripted(bad, listing("Cook"))).discover()
    assert run.manifest.reasons == ("lever:a, item 7: it has no web address",)
    assert run.manifest.counts["rejected"] == 1


COMPANIES = [
    Company(id=CompanyId("1"), name="ACME PTE. LTD."),
    Company(id=CompanyId("2"), name="Umbrella"),
]


def test_postings_of_accounts_become_signals_once_and_move_their_heat(world):
    here = world(a=Scripted(listing("Cook", "Clerk"), listing("Chef", company="Nobody We Know")))
    asyncio.run(here.store.accounts.upsert_companies(COMPANIES, now=here.clock.now()))
    began = here.clock.now()
    first = here.discover()
    heat = asyncio.run(here.store.heat.find_heat(CompanyId("1")))

    assert (first.manifest.counts["matched"], first.manifest.counts["signals"]) == (2, 2)
    assert heat.score > 0
    assert asyncio.run(here.store.heat.find_heat(CompanyId("2"))) is None
    second = here.discover()
    assert (second.manifest.counts["matched"], second.manifest.counts["signals"]) == (2, 0)
    signals = asyncio.run(here.store.heat.list_signals(CompanyId("1")))
    assert {signal.at for signal in signals} == {began}
    assert {signal.source for signal in signals} == {"lever:a"}


def test_an_account_that_comes_later_is_told_what_it_already_lists(world):
    here = world(a=Scripted(listing("Cook", etag="v1")))
    began: datetime = here.clock.now()
    assert here.discover().manifest.counts["signals"] == 0
    asyncio.run(here.store.accounts.upsert_companies(COMPANIES, now=here.clock.now()))
    assert here.discover().manifest.counts["signals"] == 1
    (signal,) = asyncio.run(here.store.heat.list_signals(CompanyId("1")))
    assert signal.at == began  # when it was first seen, not when the account came


def test_a_twin_is_no_second_signal_and_no_strength_is_no_signal(world):
    here = world(a=Scripted(listing("Cook")), b=Scripted(listing("Cook", kind="feed")))
    asyncio.run(here.store.accounts.upsert_companies(COMPANIES, now=here.clock.now()))
    assert here.discover(signal_strength=0.0).manifest.counts["signals"] == 0
    assert here.discover().manifest.counts["signals"] == 1


def test_retention_lets_old_runs_and_old_postings_go(world):
    here = world(a=Scripted(listing("Cook")))
    old = here.discover()
    here.clock.advance(40 * DAY)
    here.sources["a"] = Scripted(listing("Clerk"))
    rule = RetentionRule(days=30, keep_latest=1)
    here.discover()
    run = here.discover(retention=rule)

    kept = [each.name for each in asyncio.run(here.store.runs.list_runs())]
    assert old.name not in kept
    assert run.name in kept
    listed = asyncio.run(here.store.listings.list_listings("lever:a", since=old.at))
    assert [each.listing.job.title for each in listed] == ["Clerk"]


def test_files_go_with_their_runs_whoever_forgot_those_and_no_others_do(world):
    here = world(a=Scripted(listing("Cook")))
    old, forgotten = here.discover(enrich=True), here.discover()
    asyncio.run(here.store.runs.delete_runs([forgotten.at]))  # as `stoker prune` does
    half = here.out / f".jobs_scored_{forgotten.name}.csv.1.tmp"
    mine = ["jobs_discovered_20010101_000000.csv.bak", "notes_20010101_000000.csv", "jobs.csv"]
    for path in (half, *(here.out / name for name in mine)):
        path.write_text("")
    here.clock.advance(40 * DAY)
    rule = RetentionRule(days=30, keep_latest=1)
    kept = here.discover()
    asyncio.run(here.store.runs.delete_runs([kept.at]))  # too young for its file to go with it
    between, run = here.discover(), here.discover(retention=rule, files=False)
    assert old.name not in [each.name for each in asyncio.run(here.store.runs.list_runs())]
    assert len(here.written()) == 4 + 2 + 1 + len(mine) + 4  # who writes none, removes none

    last = here.discover(retention=rule)
    there = [
        f"jobs_discovered_{each.name}.{kind}"
        for each in (kept, between, last)
        for kind in ("csv", "summary.json")
    ]
    assert sorted(here.written()) == sorted([*mine, *there])
    assert run.manifest.reasons == last.manifest.reasons == ()


def test_a_file_that_cannot_go_is_told_of_and_fails_nothing(world):
    here = world(a=Scripted(listing("Cook")))
    here.out.mkdir()
    stuck = here.out / "jobs_discovered_20010101_000000.csv"
    stuck.mkdir()
    run = here.discover(retention=RetentionRule(days=30, keep_latest=1))
    assert run.state is RunState.DONE
    (reason,) = run.manifest.reasons
    assert f"{stuck} cannot be removed" in reason


def test_nothing_to_read_is_for_a_person_to_mend(world):
    run = world().discover()
    assert run.state is RunState.FAILED
    assert "set discovery.sources" in run.reason


def test_a_place_that_cannot_be_written_fails_the_run_and_keeps_what_was_found(world, tmp_path):
    here = world(a=Scripted(listing("Cook")))
    here.out = tmp_path / "file" / "below"
    (tmp_path / "file").write_text("in the way")
    run = here.discover()
    assert run.state is RunState.FAILED
    assert "cannot be written" in run.reason
    assert here.titles(run) == ["Cook"]


class Slow(Scripted):
    """A source that takes its time before it says anything."""

    def __init__(self, clock, took, *says):
        super().__init__(*says)
        self._clock, self._elapsed = clock, took

    async def read(self, known):
        self._clock.advance(self._elapsed)
        async for each in super().read(known):
            yield each


def test_each_source_is_charged_the_time_it_took_itself(world):
    here = world(a=None, b=Scripted(listing("Cook")), c=None)
    here.sources["a"] = Slow(here.clock, timedelta(seconds=7), listing("Clerk"))
    here.sources["c"] = Slow(here.clock, timedelta(seconds=20), TransientError("away"))
    run = here.discover(concurrency=1)
    took = {each.step: each.seconds for each in run.manifest.sources}
    assert (took["lever:a"], took["lever:b"]) == (7.0, 0.0)
    assert took["lever:c"] >= 60.0  # three times, and the waits between


def test_only_so_many_sources_are_read_ahead(world):
    under_way = most = 0

    class Slow(Scripted):
        async def read(self, known):
            nonlocal under_way, most
            under_way += 1
            most = max(most, under_way)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            under_way -= 1
            yield listing(f"Cook {id(self)}")

    here = world(**{f"s{nth}": Slow() for nth in range(9)})
    run = here.discover(concurrency=3)
    assert run.manifest.counts["kept"] == 9
    assert most == 3


def test_a_fault_of_ours_in_one_source_ends_the_run_and_leaves_nothing_hanging(world):
    class Broken(Scripted):
        async def read(self, known):
            raise ZeroDivisionError
            yield

    here = world(a=Broken(), b=Scripted(listing("Cook")), c=Broken())
    run = here.discover()
    assert run.state is RunState.FAILED
    assert "ZeroDivisionError" in run.reason


@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize(
    ("part", "verb"),
    [
        ("listings", "save_listings"),
        ("listings", "save_source"),
        ("runs", "insert_jobs"),
        ("runs", "insert_enriched"),
        ("runs", "insert_scores"),
        ("heat", "add_signals"),
    ],
)
def test_a_run_that_stops_half_way_leaves_nothing_to_mend(world, part, verb, done):
    here = world(
        backend=ShakyBackend(part, verb, done=done),
        a=Scripted(listing("Cook", "Clerk", etag="v1")),
        b=Scripted(listing("Cook", kind="feed")),
    )
    asyncio.run(here.store.accounts.upsert_companies(COMPANIES, now=here.clock.now()))
    stopped, whole = here.discover(enrich=True), here.discover(enrich=True)

    assert (stopped.state, stopped.reason) == (RunState.FAILED, "the store is away")
    assert whole.state is RunState.DONE
    assert here.titles(whole) == ["Clerk", "Cook"]
    assert [here.counts(whole, name)["twins"] for name in "ab"] == [0, 1]
    assert len(asyncio.run(here.store.heat.list_signals(CompanyId("1")))) == 2


class Tracked(Postings):
    """A batch that can be seen to be gone."""

    __slots__ = ("__weakref__",)


class Long(Scripted):
    """A source of many batches, that sees how many of them are still there at once."""

    def __init__(self):
        super().__init__()
        self.most, self._given = 0, []

    async def read(self, known):
        for nth in range(40):
            batch = Tracked(listings=listing(f"Cook {nth}").listings)
            self._given.append(weakref.ref(batch))
            self.most = max(self.most, sum(each() is not None for each in self._given))
            yield batch
            del batch


def test_a_long_source_is_never_in_memory_whole(world):
    here = world(a=Long())
    run = here.discover(enrich=True)
    assert run.manifest.counts["listed"] == 40
    assert here.sources["a"].most <= 3  # the one taken in, the next, and the one being made
