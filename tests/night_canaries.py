"""Two tenants whose nights are about different companies: is anything of one seen by the other?

Every word that only one of them can know is a canary: domains of its companies, and with them every
address there, its keys; outside the store also numbers of its companies, which the register has for
everybody. They are looked for in all that the other's store, commands, exports and CRM show.
"""

import asyncio
import contextlib
import io
import json
from dataclasses import replace
from itertools import islice

from faults.night_trials import IN_A_FILE, PLENTY, VENDORS, key_of, settings_text
from faults.tally import Tally
from night_house import ANYBODY, chosen, entity_of, register
from running_box import RunningBox
from stoker.app import open_app, read_settings
from stoker.base.types import TenantId
from stoker.budgets.reservations import ReservationStatus
from stoker.cli.main import main
from stoker.crm.model import LEAD, PARTNER
from watched_box import RETICENT

OLD, YOUNG = TenantId("acme"), TenantId("bolt")
YEARS = {OLD: (1900, 2009), YOUNG: (2010, 2100)}
DATABASE = {OLD: "acme-canary", YOUNG: "bolt-canary"}
EVERYTHING = 100_000


def looked_through(room, *, companies, storage=IN_A_FILE, careless=False) -> Tally:
    """Have both nights; tally what one tenant can see of the other.

    `careless` is the wrong way: a command is asked without saying for whom, as operators do.

    `n` is how many texts were looked through, `acked` how many canaries were found at home, where
    they belong: a search that finds none there finds none anywhere.
    """
    tally = Tally()
    dials = {"zerobounce.calls": PLENTY}
    with RunningBox(companies=40 * companies, seed=3, dials=dials, vendors=RETICENT) as box:
        text = settings_text(box.box.address, DATABASE, at_once=8, storage=storage)
        (room / "stoker.toml").write_text(f"scheduling.daily_cap_per_tenant = {companies}\n{text}")
        theirs = {tenant: _of_years(box.world, YEARS[tenant], companies) for tenant in YEARS}
        asyncio.run(_prepared(room, [*theirs[OLD], *theirs[YOUNG]]))
        _told(room, "nightly", "--tenant", OLD, "--tenant", YOUNG, "--json")
        for tenant, other in ((OLD, YOUNG), (YOUNG, OLD)):
            inside = asyncio.run(_in_store(room, tenant, theirs[other]))
            outside = [*_said(room, tenant, theirs[tenant][0]), *_in_crm(box, tenant)]
            if careless:
                outside.append(("everybody's leads", _told(room, "leads", "--min", "0", "--json")))
            for texts, spied in ((inside, _canaries), (outside, _with_numbers)):
                for where, shown in texts:
                    tally.n += 1
                    home, strange = spied(tenant, theirs[tenant]), spied(other, theirs[other])
                    tally.acked += sum(word in shown for word in home)
                    tally.broken += [
                        f"{tenant} sees {word} of {other} in {where}"
                        for word in strange
                        if word in shown
                    ]
    return tally


def _of_years(world, years, number):
    fine = chosen(world, world.size, troubles=False)
    return list(islice((c for c in fine if years[0] <= c.incorporated.year <= years[1]), number))


def _canaries(tenant, companies):
    keys = [key_of(vendor, DATABASE[tenant]) for vendor in VENDORS]
    return [*(company.domain for company in companies), *keys, DATABASE[tenant]]


def _with_numbers(tenant, companies):
    return [*_canaries(tenant, companies), *(company.uen for company in companies)]


async def _prepared(room, companies):
    own = read_settings(directory=room, config=None, flags={}, environment={})
    async with open_app(own, observer=lambda _: None) as app:
        await register(app, list(map(entity_of, companies)))
        for tenant, years in YEARS.items():
            accounts = app.backend.tenant(tenant).accounts
            await accounts.save_rule(replace(ANYBODY, years=years))


async def _in_store(room, tenant, strangers):
    """Return everything this tenant's door leads to, also when asked for what is the other's."""
    own = read_settings(directory=room, config=None, flags={}, environment={})
    async with open_app(own, observer=lambda _: None) as app:
        store = app.backend.tenant(tenant)
        runs = await store.runs.list_runs(limit=EVERYTHING)
        found = [
            ("dossiers", await store.accounts.list_company_records(limit=EVERYTHING)),
            ("runs", runs),
            (
                "holds",
                await store.budgets.list_reservations(
                    phases=tuple(ReservationStatus), limit=EVERYTHING
                ),
            ),
            ("usage", await store.budgets.list_usage()),
            ("ledger", await store.ledger.list_entries(limit=EVERYTHING)),
        ]
        for run in runs:
            found.append(("units", await store.work_items.list_items(run.name, limit=EVERYTHING)))
            found.append(("rows sent", await store.crm.list_sent_rows(run.name, limit=EVERYTHING)))
        for company in strangers:
            found.append(("pages", await store.pages.list_pages(company.domain)))
            found.append(("a dossier", await store.accounts.find_company_record(company.uen)))
        return [(f"its store: {what}", repr(value)) for what, value in found]


def _told(room, *words):
    out = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)  # exports write bytes
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        code = main(["-C", str(room), *words])
    shown = out.buffer.getvalue().decode()
    assert code == 0, f"stoker {' '.join(words)} ended with {code}: {shown[-500:]}"
    return shown


def _said(room, tenant, company):
    """Yield what every command says that is asked on behalf of one tenant."""
    for_it = ("--tenant", tenant, "--json")
    run = json.loads(_told(room, "runs", "list", *for_it, "--kind", "nightly"))
    name = (run if isinstance(run, list) else run["runs"])[0]["run"]
    for words in (
        ("runs", "list", *for_it),
        ("runs", "show", name, *for_it),
        ("ledger", "list", "--limit", "100000", *for_it),
        ("ledger", "export", "--format", "csv", "--tenant", tenant),
        ("ledger", "verify", *for_it),
        ("holds", *for_it),
        ("caps", "list", *for_it),
        ("leads", "--min", "0", "--limit", "100000", *for_it),
        ("leads", "--min", "0", "--csv", "--tenant", tenant),
        ("export", "leads", "--format", "json", "--least", "0", "--tenant", tenant),
        ("export", "leads", "--format", "csv", "--least", "0", "--tenant", tenant),
        ("nightly", "--dry-run", *for_it),
        ("icp", "show", *for_it),
        ("crm", "show", *for_it),
        ("tenant", "show", tenant, "--json"),
        ("why", f"{tenant}/{company.uen}", "--json"),
    ):
        yield f"stoker {' '.join(words)}", _told(room, *words)


def _in_crm(box, tenant):
    database = DATABASE[tenant]
    headers = {
        "Authorization": f"bearer odoo-{database}-human-mei",
        "X-Odoo-Database": database,
    }
    for model in (PARTNER, LEAD):
        path, everything = f"/json/2/{model}/search_read", {"domain": [], "limit": EVERYTHING}
        answer = box.ask("odoo.test", "POST", path, everything, headers=headers)
        assert answer.status == 200, answer.body
        yield f"its CRM: {model}", answer.body.decode()
