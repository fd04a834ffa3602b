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
from stoker.crawl.model import Excerpt
from stoker.crawl.service import build_crawl_connector, build_crawler
from stoker.crm.odoo import open_crm
from stoker.http.client import build_http_client
from stoker.leads.rationale import build_rationales
from stoker.rate_limits.host_delays import build_host_pacer
from stoker.rate_limits.limiter import build_vendor_limits
from stoker.sandbox.http import Response
from stoker.sandbox.server import HANDLERS
from stoker.tenants.model import CrmConnection
from stoker.testing import EventRecorder, FakeClock
from stoker.vendors.answer_cache import build_cache_key
from stoker.vendors.client import open_vendor_client
from stoker.vendors.extraction import ExtractionQuery
from stoker.vendors.lusha import build_people, build_reveal
from stoker.vendors.openai import build_extractor
from stoker.vendors.table import VENDORS, check_vendor, get_off_reason
from stoker.vendors.tavily import SearchQuery, build_page_reader, build_search
from stoker.vendors.zerobounce import build_verifier

ACME, BOLT = TenantId("acme"), TenantId("bolt")
TENANTS = "[tenants.acme]\n[tenants.bolt]\n"
REAL = "tvly-prod-5c1d77"


def at(url):
    return CrmConnection(kind="odoo", url=url, database="acme")


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
        return {name: get_off_reason(app.settings.for_tenant(ACME), name) for name in VENDORS}

    off = on_app(look)
    assert [name for name, because in off.items() if not because] == ["crawl", "datagov", "boards"]
    assert off["tavily"] == "keys.tavily (TAVILY_API_KEY) is not set"
    assert off["odoo"] == (
        "odoo.url (ODOO_URL), odoo.database (ODOO_DB), keys.odoo (ODOO_API_KEY) are not set"
    )


@pytest.mark.parametrize(
    "build",
    [
        build_search,
        build_page_reader,
        build_people,
        build_reveal,
        build_verifier,
        build_extractor,
        build_rationales,
        open_crm,
    ],
)
def test_what_is_off_is_an_error_only_for_whoever_asks_for_it(on_app, build):
    async def ask(app):
        with pytest.raises(ConfigError, match=r" is off for acme: .* not set"):
            build(app.for_tenant(ACME))

    on_app(ask)


def test_in_the_sandbox_every_connector_is_on_and_well_without_a_key(on_app, box):
    async def look(app):
        return {
            (name, tenant): await check_vendor(app.for_tenant(tenant), name)
            for name in VENDORS
            for tenant in (ACME, BOLT)
        }

    paced = ("datagov", "datagov_downloads", "boards", "tavily", "lusha", "zerobounce", "openai")
    rates = "".join(f"[{name}]\ncalls = 100000\n" for name in paced)
    assert [found for found in on_app(look, rates, box=box).items() if not found[1].ok] == []


def test_no_key_that_may_be_real_reaches_the_sandbox(on_app):
    heard = []

    def hearing(asked):
        heard.append(asked)
        return Response(status=404)

    async def ask(app):
        for name in VENDORS:
            await check_vendor(app.for_tenant(ACME), name)

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
        with pytest.raises(ConfigError, match=r"acme's Odoo key may be real: it is not sent there"):
            open_crm(app.for_tenant(ACME), at("http://odoo.test"))

    on_app(ask, box=box, changed=with_a_real_key)


def test_an_answer_from_a_rehearsal_is_never_taken_for_a_real_one(on_app, box):
    question = SearchQuery(query="anvils in singapore")

    async def ask(app):
        asking, store = await open_vendor_client(app.for_tenant(ACME)), app.backend.tenant(ACME)
        answered = await asking.ask(
            build_search(app.for_tenant(ACME)), question, account="acme.test"
        )
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
        client = app.get(build_http_client)
        assert app.get(build_http_client) is client
        assert app.get(build_crawler) is app.get(build_crawler)
        assert open_crm(app.for_tenant(ACME)) is open_crm(app.for_tenant(ACME))
        assert open_crm(app.for_tenant(ACME)) is not open_crm(app.for_tenant(BOLT))

    on_app(ask, box=box)


@pytest.mark.parametrize(("deep", "units"), [(False, 2), (True, 7)])
def test_a_look_at_a_site_counts_what_the_tenant_s_settings_say(on_app, deep, units):
    async def look(app):
        from stoker.crawl.model import VisitRequest

        mine = build_crawl_connector(app.for_tenant(ACME), deep=deep).price(
            VisitRequest(url="acme.test")
        )
        others = build_crawl_connector(app.for_tenant(BOLT), deep=deep).price(
            VisitRequest(url="acme.test")
        )
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
        return [
            app.get(build_vendor_limits).get_limiter("tavily", tenant=TenantId(name)).rate
            for name in names
        ]

    acme, bolt, cone, dome, echo = on_app(look, toml, TAVILY_API_KEY="all-1")
    assert acme is bolt
    assert cone is dome
    assert len({id(pace) for pace in (acme, cone, echo)}) == 3


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
        gaps = app.parts.get(build_host_pacer, Gaps)
        visit = await app.get(build_crawler).visit(site)
        fewer = await build_crawler(app, max_pages=1).visit(site)
        return gaps.kept, len(visit.pages), len(fewer.pages)

    toml = "[crawl]\ngap_s = 0.125\nmax_pages = 2\n"
    kept, pages, fewer = on_app(look, toml, box=box)
    assert min(kept) == timedelta(seconds=0.125)
    assert (pages, fewer) == (2, 1)


def test_every_request_to_a_tenant_s_odoo_keeps_the_pace_that_settings_say(on_app, box):
    async def look(app):
        app = replace(app, clock=FakeClock())
        crms = [open_crm(app.for_tenant(tenant)) for tenant in (ACME, BOLT)]
        assert (await crms[0].check()).ok  # version, a count, which fields it has
        assert (await crms[1].check()).ok  # a server of its own waits for nobody
        return app.clock.elapsed()

    waited = on_app(look, "[odoo]\ncalls = 1\nper_s = 30\nburst = 1\n", box=box)
    assert timedelta(seconds=120) <= waited < timedelta(seconds=121)


@pytest.mark.parametrize("stopped", ["", "odoo"])
def test_a_stop_ends_what_is_sent_to_a_crm_until_it_is_taken_back(on_app, box, stopped):
    async def look(app):
        async def told(tenant, **how):
            try:
                return bool(await open_crm(app.for_tenant(tenant), **how).fields("res.partner"))
            except TransientError as error:
                return str(error)

        money = app.backend.tenant(ACME).budgets
        await money.stop("tavily", reason="dear", now=app.clock.now())
        before = await open_crm(app.for_tenant(ACME), at("http://odoo.test/")).fields("res.partner")
        await money.stop(stopped, reason="look at it first", now=app.clock.now())
        during = await told(ACME), await told(BOLT), await told(ACME, despite_stops=True)
        healthy = await check_vendor(app.for_tenant(ACME), "odoo")
        await money.resume(stopped, now=app.clock.now())
        return bool(before), during, healthy.ok, await told(ACME)

    before, (acme, bolt, person), healthy, after = on_app(look, box=box)
    assert (before, bolt, person, healthy, after) == (True,) * 5
    assert acme.startswith("odoo is stopped (look at it first)")


def test_rationales_are_worded_by_a_model_only_for_a_tenant_that_says_so(on_app, box):
    async def look(app):
        return [build_rationales(app.for_tenant(tenant)) is not None for tenant in (ACME, BOLT)]

    assert on_app(look, box=box) == [False, False]
    assert on_app(look, "[tenants.acme.score]\nllm_rationale = true\n", box=box) == [True, False]


@pytest.mark.parametrize(("currency", "money"), [("USD", {"money:USD"}), ("SGD", set())])
def test_a_model_s_money_is_promised_where_its_cap_is_in_dollars(on_app, box, currency, money):
    async def look(app):
        return build_extractor(app.for_tenant(ACME)).price(
            ExtractionQuery(
                domain="acme.test", excerpts=(Excerpt(url="http://acme.test", text="Us"),)
            )
        )

    price = on_app(look, f'[caps]\ncurrency = "{currency}"\n', box=box)
    assert set(price) == {"calls", "tokens"} | money
    assert price["tokens"] > 4000
