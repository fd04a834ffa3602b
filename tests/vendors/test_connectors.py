"""Connectors as settings say: built when asked for, off with a reason, never with a wrong key."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from running_box import RunningBox
from stoker.app import open_app, read_settings
from stoker.base.errors import ConfigError, TransientError
from stoker.base.types import TenantId
from stoker.config.fields import Secret
from stoker.connectors import NEEDS, VendorFactory
from stoker.crawl.model import Excerpt
from stoker.policies import build_vendor_limits
from stoker.sandbox.http import Response
from stoker.sandbox.server import HANDLERS
from stoker.testing import EventRecorder, FakeClock
from stoker.vendors.answer_cache import build_cache_key
from stoker.vendors.extraction import ExtractionQuery
from stoker.vendors.tavily import SearchQuery

ACME, BOLT = TenantId("acme"), TenantId("bolt")
TENANTS = "[tenants.acme]\n[tenants.bolt]\n"
REAL = "tvly-prod-5c1d77"


@pytest.fixture(scope="module")
def box():
    with RunningBox(companies=50) as running:
        yield running


@pytest.fixture
def on_app(tmp_path):
    """Run a scenario on an app opened with these settings."""

    def run(scenario, toml="", *, box=None, changed=lambda own: own, **environment):
        if box is not None:
            environment["STOKER_SANDBOX_ADDRESS"] = box.box.address
        (tmp_path / "stoker.toml").write_text('[storage]\nbackend = "memory"\n' + toml + TENANTS)
        own = read_settings(directory=tmp_path, config=None, flags={}, environment=environment)

        async def whole():
            async with open_app(changed(own), observer=EventRecorder()) as app:
                return await scenario(app)

        return asyncio.run(whole())

    return run


def test_without_keys_what_needs_one_is_off_and_says_what_is_missing(on_app):
    async def look(app):
        return {name: app.connectors.get_off_reason(name, ACME) for name in NEEDS}

    off = on_app(look)
    assert [name for name, because in off.items() if not because] == ["crawl", "datagov", "boards"]
    assert off["tavily"] == "keys.tavily (TAVILY_API_KEY) is not set"
    assert off["odoo"] == (
        "odoo.url (ODOO_URL), odoo.database (ODOO_DB), keys.odoo (ODOO_API_KEY) are not set"
    )


@pytest.mark.parametrize(
    "wanted",
    [
        "search",
        "reading",
        "people",
        "reveal",
        "verifier",
        "extractor",
        "rationales",
        "crm",
    ],
)
def test_what_is_off_is_an_error_only_for_whoever_asks_for_it(on_app, wanted):
    async def ask(app):
        with pytest.raises(ConfigError, match=r" is off for acme: .* not set"):
            getattr(app.connectors, wanted)(ACME)

    on_app(ask)


def test_looking_at_a_connector_that_is_off_asks_nobody(on_app):
    async def look(app):
        return await app.connectors.check_vendor("tavily", ACME)

    health = on_app(look)
    assert not health.ok
    assert health.detail == "it is off: keys.tavily (TAVILY_API_KEY) is not set"


def test_a_connector_there_is_none_of_is_answered_with_those_there_are(on_app):
    async def look(app):
        with pytest.raises(ConfigError, match=r"no connector 'tavly'; there are: crawl, tavily"):
            await app.connectors.check_vendor("tavly", ACME)

    on_app(look)


def test_in_the_sandbox_every_connector_is_on_and_well_without_a_key(on_app, box):
    async def look(app):
        return {
            (name, tenant): await app.connectors.check_vendor(name, tenant)
            for name in NEEDS
            for tenant in (ACME, BOLT)
        }

    paced = ("datagov", "datagov_downloads", "boards", "tavily", "lusha", "zerobounce", "openai")
    rates = "".join(f"[{name}]\ncalls = 100000\n" for name in paced)
    assert [found for found in on_app(look, rates, box=box).items() if not found[1].ok] == []


def test_a_key_that_is_refused_is_a_sentence(on_app, box):
    async def look(app):
        return await app.connectors.check_vendor("tavily", ACME)

    health = on_app(look, box=box, TAVILY_API_KEY="tvly-sandbox-wrong")
    assert not health.ok
    assert "refuses our key" in health.detail
    assert "tvly" not in health.detail


def test_no_key_that_may_be_real_reaches_the_sandbox(on_app):
    heard = []

    def hearing(asked):
        heard.append(asked)
        return Response(status=404)

    async def ask(app):
        for name in NEEDS:
            await app.connectors.check_vendor(name, ACME)

    names = ("TAVILY", "OPENAI", "LUSHA", "ZEROBOUNCE", "ODOO", "DATA_GOV_SG")
    real = {f"{name}_API_KEY": REAL for name in names}
    with RunningBox(vendors={host: lambda *_: hearing for host in HANDLERS}) as box:
        on_app(ask, box=box, **real)

    asked_of = {asked.host for asked in heard}
    assert asked_of >= {"tavily.test", "openai.test", "lusha.test", "zerobounce.test", "odoo.test"}
    assert asked_of >= {"data-gov.test", "greenhouse.test", "lever.test", "ashby.test"}
    assert REAL not in repr(heard)
    assert "tvly-sandbox" in repr(heard)


def test_a_crm_on_the_sandbox_is_refused_a_key_that_may_be_real(on_app, box):
    def with_a_real_key(own):
        return replace(own, tenants=(replace(own.tenants[0], overrides={}),)).with_values(
            {"keys.odoo": Secret(REAL)}, {}
        )

    async def ask(app):
        with pytest.raises(ConfigError, match=r"acme's key of Odoo may be real: it stays here"):
            app.connectors.crm(ACME, url="http://odoo.test", database="acme")

    on_app(ask, box=box, changed=with_a_real_key)


def test_a_question_passes_the_gate_and_its_answer_is_paid_for_once(on_app, box):
    async def ask(app):
        asking, search = await app.get_vendor_client(ACME), app.connectors.search(ACME)
        question = SearchQuery(query="anvils in singapore")
        first = await asking.ask(search, question, account="acme.test")
        again = await asking.ask(search, question, account="acme.test")
        assert await app.get_vendor_client(ACME) is asking
        return first, again, await app.backend.tenant(ACME).money.list_usage()

    first, again, usage = on_app(ask, box=box)
    assert first.answer == again.answer
    assert (dict(first.cost)["credits"], dict(again.cost)) == (1, {})
    used = {each.cap: each.used.settled for each in usage}
    assert used["tenant_connector/tavily/calls/day"] == 1


def test_an_answer_from_a_rehearsal_is_never_taken_for_a_real_one(on_app, box):
    question = SearchQuery(query="anvils in singapore")

    async def ask(app):
        asking, store = await app.get_vendor_client(ACME), app.backend.tenant(ACME)
        answered = await asking.ask(app.connectors.search(ACME), question, account="acme.test")
        asked = question.as_json()
        keys = {
            rehearsed: build_cache_key(
                "tavily", account="acme.test", asked=asked, rehearsed=rehearsed
            )
            for rehearsed in (True, False)
        }
        kept = await store.answers.find_answers(list(keys.values()))
        return answered, [rehearsed for rehearsed, key in keys.items() if key in kept]

    answered, kept = on_app(ask, box=box)
    assert answered.cost["credits"] == 1
    assert kept == [True]


def test_the_client_is_one_for_all_and_closed_with_the_app(on_app, box):
    async def ask(app):
        client = app.connectors.http()
        assert app.connectors.http() is client
        assert app.connectors.crawler() is app.connectors.crawler()
        assert app.connectors.crm(ACME) is app.connectors.crm(ACME)
        assert app.connectors.crm(ACME) is not app.connectors.crm(BOLT)

    on_app(ask, box=box)


@pytest.mark.parametrize(("deep", "units"), [(False, 2), (True, 7)])
def test_a_look_at_a_site_counts_what_the_tenant_s_settings_say(on_app, deep, units):
    async def look(app):
        from stoker.crawl.model import VisitRequest

        mine = app.connectors.crawl(ACME, deep=deep).price(VisitRequest(url="acme.test"))
        others = app.connectors.crawl(BOLT, deep=deep).price(VisitRequest(url="acme.test"))
        return mine["pull_units"], others["pull_units"]

    toml = "[crawl]\nshallow_units = 2\ndeep_units = 7\n"
    assert on_app(look, toml) == (units, units)


def test_tenants_with_one_key_keep_one_pace_and_a_tenant_with_its_own_another(on_app):
    toml = "".join(
        f'[tenants.{tenant}]\nkeys.tavily = "{key}"\n'
        for tenant, key in (("cone", "own-1"), ("dome", "own-1"), ("echo", "own-2"))
    )

    async def look(app):
        names = [ACME, BOLT, "cone", "dome", "echo"]
        return [app.get_rate_limiter("tavily", TenantId(name)) for name in names]

    acme, bolt, cone, dome, echo = on_app(look, toml, TAVILY_API_KEY="all-1")
    assert acme is bolt
    assert cone is dome
    assert len({id(pace) for pace in (acme, cone, echo)}) == 3


async def no_stops(_):
    return []


class Gaps:
    """A pacer that writes down which distance to a host is kept, and keeps nobody waiting."""

    def __init__(self):
        self.kept = set()

    async def acquire(self, host, *, gap):
        self.kept.add(gap)

    async def delay_until(self, host, *, until):
        pass


def test_sites_are_visited_with_the_pages_and_the_distance_that_settings_say(on_app, box):
    site = next(
        company.domain
        for index in range(50)
        if (company := box.world.get_company(index)).trouble == "fine"
    )

    async def look(app):
        gaps = Gaps()
        how = {"hosts": gaps, "traffic": app.vendor_limits, "clock": app.clock, "stops": no_stops}
        async with VendorFactory(app.settings, **how) as connectors:
            visit = await connectors.crawler().visit(site)
            fewer = await connectors.crawler(max_pages=1).visit(site)
        return gaps.kept, len(visit.pages), len(fewer.pages)

    toml = "[crawl]\ngap_s = 0.125\nmax_pages = 2\n"
    kept, pages, fewer = on_app(look, toml, box=box)
    assert min(kept) == timedelta(seconds=0.125)
    assert (pages, fewer) == (2, 1)


def test_every_request_to_a_tenant_s_odoo_keeps_the_pace_that_settings_say(on_app, box):
    async def look(app):
        clock = FakeClock()
        how = {"hosts": Gaps(), "clock": clock, "stops": no_stops}
        traffic = build_vendor_limits(app.settings, app.backend, owner="us", clock=clock)
        async with VendorFactory(app.settings, traffic=traffic, **how) as connectors:
            assert (await connectors.crm(ACME).check()).ok  # version, a count, which fields it has
            assert (await connectors.crm(BOLT).check()).ok  # a server of its own waits for nobody
        return clock.elapsed()

    waited = on_app(look, "[odoo]\ncalls = 1\nper_s = 30\nburst = 1\n", box=box)
    assert timedelta(seconds=120) <= waited < timedelta(seconds=121)


@pytest.mark.parametrize("stopped", ["", "odoo"])
def test_a_stop_ends_what_is_sent_to_a_crm_until_it_is_taken_back(on_app, box, stopped):
    async def look(app):
        async def told(tenant, **how):
            try:
                return bool(await app.connectors.crm(tenant, **how).fields("res.partner"))
            except TransientError as error:
                return str(error)

        money = app.backend.tenant(ACME).money
        await money.stop("tavily", reason="dear", now=app.clock.now())
        before = await app.connectors.crm(ACME, url="http://odoo.test/").fields("res.partner")
        await money.stop(stopped, reason="look at it first", now=app.clock.now())
        during = await told(ACME), await told(BOLT), await told(ACME, despite_stops=True)
        healthy = await app.connectors.check_vendor("odoo", ACME)
        await money.resume(stopped, now=app.clock.now())
        return bool(before), during, healthy.ok, await told(ACME)

    before, (acme, bolt, person), healthy, after = on_app(look, box=box)
    assert (before, bolt, person, healthy, after) == (True,) * 5
    assert acme.startswith("odoo is stopped (look at it first)")


def test_rationales_are_worded_by_a_model_only_for_a_tenant_that_says_so(on_app, box):
    async def look(app):
        return [app.connectors.rationales(tenant) is not None for tenant in (ACME, BOLT)]

    assert on_app(look, box=box) == [False, False]
    assert on_app(look, "[tenants.acme.score]\nllm_rationale = true\n", box=box) == [True, False]


@pytest.mark.parametrize(("currency", "money"), [("USD", {"money:USD"}), ("SGD", set())])
def test_a_model_s_money_is_promised_where_its_cap_is_in_dollars(on_app, box, currency, money):
    async def look(app):
        return app.connectors.extractor(ACME).price(
            ExtractionQuery(
                domain="acme.test", excerpts=(Excerpt(url="http://acme.test", text="Us"),)
            )
        )

    price = on_app(look, f'[caps]\ncurrency = "{currency}"\n', box=box)
    assert set(price) == {"calls", "tokens"} | money
    assert price["tokens"] > 4000
