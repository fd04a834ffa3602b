"""Discovery on the sandbox's boards and feeds, from settings to files and heat, the clock still."""

import csv
import io
import json
from datetime import UTC, datetime, timedelta

import pytest

from running_box import RunningBox
from stoker.accounts.model import Company, CompanyId
from stoker.app import build_scheduler, open_app, read_settings
from stoker.base.types import TenantId
from stoker.discovery.service import build_discovery_run, build_posting_files
from stoker.discovery.sources import parse_source_counts
from stoker.enrichment.runner import run_now
from stoker.runs.model import RunState
from stoker.sandbox.world.jobs import list_openings
from stoker.testing import EventRecorder, FakeClock

DEFAULT = TenantId("default")
MORNING = datetime(2026, 11, 16, 1, 30, tzinfo=UTC)
DAY = timedelta(days=1)
VENDORS = ("greenhouse", "lever", "ashby")


@pytest.fixture(scope="module")
def box():
    with RunningBox(companies=200) as running:
        yield running


@pytest.fixture(autouse=True)
def first_night(box):
    box.faults.set_value("sites.night", 0)


def on_boards(box):
    """Return a company for each vendor of boards."""
    companies = [box.world.get_company(at) for at in range(200)]
    return [
        next(each for each in companies if each.board == vendor and of(box, each))
        for vendor in VENDORS
    ]


def of(box, company, night=0):
    return list_openings(box.world, company, night=night)


def sources_in(box):
    companies = on_boards(box)
    boards = [f"{each.board}:{each.slug} | {each.brand} | {each.domain}" for each in companies]
    feed = f"feed:http://feeds.test/{companies[0].slug}/jobs.rss | {companies[0].brand}"
    return [*boards, feed]


def home(tmp_path, sources, more="", *, backend="sqlite"):
    tmp_path.mkdir(exist_ok=True)
    (tmp_path / "stoker.toml").write_text(
        f'[storage]\nbackend = "{backend}"\nsqlite_path = "stoker.db"\njson_dir = "data"\n'
        f"[boards]\ncalls = 1000\nburst = 100\n[discovery]\nenrich = true\n"
        f"sources = {json.dumps(sources)}\n{more}"
    )
    return tmp_path


async def on_app(place, box, work, *, clock=None):
    at = {"STOKER_SANDBOX_ADDRESS": box.box.address}
    own = read_settings(directory=place, config=None, flags={}, environment=at)

    told = clock or FakeClock(MORNING)
    async with open_app(own, clock=told, observer=EventRecorder()) as app:
        return await work(app)


async def discovered(app):
    discovery = build_discovery_run(
        app.for_tenant(DEFAULT), files=build_posting_files(app.for_tenant(DEFAULT))
    )
    return await run_now(app.for_tenant(DEFAULT), discovery)


def contents(place):
    """Return what was written, without the run's name."""
    return {
        path.name.rpartition("_2026")[0]: path.read_bytes()
        for path in sorted((place / "discovered").iterdir())
        if "summary" not in path.name
    }


async def test_every_opening_of_every_board_is_kept_once_enriched_scored_and_written(tmp_path, box):
    place = home(tmp_path, sources_in(box))
    run = await on_app(place, box, discovered)

    openings = [(each.brand, job) for each in on_boards(box) for job in of(box, each)]
    assert (run.state, run.name) == (RunState.DONE, "20261116_013000")
    assert run.manifest.counts["kept"] == len(openings)
    assert run.manifest.counts["twins"] == len(of(box, on_boards(box)[0]))
    files = contents(place)
    rows = list(csv.DictReader(io.StringIO(files["jobs_discovered"].decode())))
    assert sorted((row["company"], row["title"], row["posted_date"]) for row in rows) == sorted(
        (brand, job.title, job.posted_at.date().isoformat()) for brand, job in openings
    )
    enriched = json.loads(files["jobs_enriched"])
    scored = list(csv.DictReader(io.StringIO(files["jobs_scored"].decode())))
    urls = [row["url"] for row in rows]
    assert urls == [each["url"] for each in enriched] == [each["url"] for each in scored]
    assert any(each["remote_friendly"] for each in enriched)
    assert all(0 <= float(row["score"]) <= 1 for row in scored)


async def test_nothing_that_did_not_change_is_sent_again_and_the_files_are_the_same(tmp_path, box):
    place, clock = home(tmp_path, sources_in(box)), FakeClock(MORNING)
    await on_app(place, box, discovered, clock=clock)
    before = contents(place)
    clock.advance(DAY)
    run = await on_app(place, box, discovered, clock=clock)

    assert {each["state"] for each in parse_source_counts(run.manifest.counts).values()} == {
        "unchanged"
    }
    assert run.manifest.counts["new"] == run.manifest.counts["gone"] == 0
    assert contents(place) == before  # those of the second run, whose name sorts later


async def test_accounts_that_hire_are_hot_by_their_domain_or_their_name(tmp_path, box):
    greenhouse, lever, ashby = on_boards(box)
    place = home(
        tmp_path,
        [
            f"greenhouse:{greenhouse.slug} | Somebody | {greenhouse.domain}",
            f"lever:{lever.slug} | {lever.name}",
            f"ashby:{ashby.slug} | Nobody We Know",
        ],
    )

    async def work(app):
        store = app.backend.tenant(DEFAULT)
        companies = [
            Company(id=CompanyId(each.uen), name=each.name, website=f"http://www.{each.domain}/")
            for each in (greenhouse, lever, ashby)
        ]
        await store.accounts.upsert_companies(companies, now=app.clock.now())
        run = await discovered(app)
        return run, await store.heat.list_hottest()

    run, hottest = await on_app(place, box, work)
    assert {heat.account for heat in hottest} == {greenhouse.uen, lever.uen}
    assert run.manifest.counts["signals"] == len(of(box, greenhouse)) + len(of(box, lever))
    assert run.manifest.counts["employers_matched"] == 2


async def test_the_schedule_starts_it_when_it_is_due_and_once(tmp_path, box):
    place, clock = home(tmp_path, sources_in(box), "scheduled = true\n"), FakeClock(MORNING)

    async def work(app):
        kinds = []
        for _ in range(2):
            for _ in range(2):
                ended = await build_scheduler(app, (DEFAULT,)).run_once()
                kinds.append(sorted(run.kind for _, run in ended))
            clock.advance(DAY)
        return kinds

    assert await on_app(place, box, work, clock=clock) == [["discovery", "upkeep"], []] * 2
    assert len(list((place / "discovered").iterdir())) == 8


async def test_unless_settings_want_it_the_schedule_leaves_discovery_alone(tmp_path, box):
    async def work(app):
        return [run.kind for _, run in await build_scheduler(app, (DEFAULT,)).run_once()]

    assert await on_app(home(tmp_path, sources_in(box)), box, work) == ["upkeep"]
