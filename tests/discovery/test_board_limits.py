"""Boards and feeds as settings say: at the pace they allow, and not while they are stopped."""

from datetime import timedelta

import pytest

from running_box import RunningBox
from stoker.app import open_app, read_settings
from stoker.base.errors import PermanentError, TransientError
from stoker.base.types import TenantId
from stoker.discovery.service import build_board, build_feeds
from stoker.sandbox.http import Response
from stoker.testing import EventRecorder, FakeClock
from stoker.vendors.table import check_vendor

ACME = TenantId("acme")


async def on_boards(home, work, toml="", *, box):
    """Run work with the context of one tenant, on a clock that is turned by waiting."""
    (home / "stoker.toml").write_text(f'[storage]\nbackend = "memory"\n{toml}\n[tenants.acme]\n')
    at = {"STOKER_SANDBOX_ADDRESS": box.box.address}
    own = read_settings(directory=home, config=None, flags={}, environment=at)

    async with open_app(own, observer=EventRecorder(), clock=FakeClock()) as app:
        return await work(app.for_tenant(ACME), app.clock, app)


@pytest.fixture(scope="module")
def box():
    with RunningBox(companies=50) as running:
        yield running


async def asked(acme, vendor):
    with pytest.raises(PermanentError):  # nobody is called so, and that is an answer
        await build_board(acme, vendor).read_postings("nobody-at-all")


async def test_all_boards_together_keep_the_rate_that_settings_say(tmp_path, box):
    async def work(acme, clock, _):
        for vendor in ("greenhouse", "lever", "ashby"):
            await asked(acme, vendor)
        with pytest.raises(PermanentError):
            await build_feeds(acme).read_postings("http://feeds.test/nobody/jobs.rss")
        assert (await check_vendor(acme, "boards")).ok  # three more calls
        return clock.elapsed()

    waited = await on_boards(tmp_path, work, "[boards]\ncalls = 1\nper_s = 20\n", box=box)
    assert timedelta(seconds=120) <= waited < timedelta(seconds=121)


async def test_a_feeds_host_is_asked_as_gently_as_a_site(tmp_path, box):
    async def work(acme, clock, _):
        for _ in range(3):
            with pytest.raises(PermanentError):
                await build_feeds(acme).read_postings("http://feeds.test/nobody/jobs.rss")
        return clock.elapsed()

    toml = "[crawl]\ngap_s = 9\n[boards]\ncalls = 1000\nper_s = 1\nburst = 10\n"
    waited = await on_boards(tmp_path, work, toml, box=box)
    assert timedelta(seconds=18) <= waited < timedelta(seconds=19)


async def test_one_board_that_wants_to_rest_is_left_alone_and_the_others_are_not(tmp_path):
    def busy(asked):
        return Response(status=429, headers={"retry-after": "30"})

    vendors = {
        "greenhouse.test": lambda *_: busy,
        "lever.test": lambda *_: lambda asked: Response(status=404),
    }

    async def work(acme, clock, _):
        times = []
        for vendor in ("greenhouse", "lever", "greenhouse"):
            with pytest.raises((TransientError, PermanentError)):
                await build_board(acme, vendor).read_postings("acme")
            times.append(clock.elapsed())
        return times

    with RunningBox(vendors=vendors) as box:
        toml = "[boards]\ncalls = 1000\nper_s = 1\nburst = 10\n"
        first, second, third = await on_boards(tmp_path, work, toml, box=box)
    assert second - first < timedelta(seconds=1)
    assert third - first >= timedelta(seconds=30)


@pytest.mark.parametrize("stopped", ["", "boards"])
async def test_a_stop_ends_asking_until_it_is_taken_back(tmp_path, box, stopped):
    async def work(acme, clock, app):
        money = app.backend.tenant(ACME).budgets
        await money.stop(stopped, reason="look at it first", now=clock.now())
        with pytest.raises(TransientError, match=r"boards is stopped \(look at it first\)"):
            await build_board(acme, "lever").read_postings("nobody-at-all")
        well = await check_vendor(acme, "boards")  # looking is not asking for postings
        await money.resume(stopped, now=clock.now())
        await asked(acme, "lever")
        return well.ok

    assert await on_boards(tmp_path, work, box=box)
