"""Writers who meet on the same records of a CRM that fails in every way, tried and tallied."""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta

from faults.tally import Tally
from stoker.base.errors import StokerError
from stoker.crm.model import LEAD, PARTNER, CrmRow, RowResult, RowWrite
from stoker.crm.odoo import Odoo
from stoker.crm.upsert import plan_upserts
from stoker.http.client import HttpClient
from stoker.sandbox.server import Sandbox
from stoker.sandbox.vendors.odoo.effects import normalize_values

Way = Callable[[Odoo, list[CrmRow]], Awaitable[dict[str, RowResult]]]
FAULTS = ("busy", "unavailable", "error", "error_charged", "close", "reset", "truncated", "garbage")
AT_ONCE = 8
OWNED = {
    PARTNER: ("name", "company_registry", "website", "zip", "email", "phone", "function"),
    LEAD: (
        *("name", "partner_name", "contact_name", "function", "email_from", "phone", "website"),
        "description",
    ),
}
ROWS = 200  # written together
BAD = "9"  # no priority of any CRM


@dataclass(frozen=True)
class Trial:
    """Some writers, some records, each writer wanting all of them in its own words."""

    number: int
    writers: int
    records: int
    bad: int  # the first so many records are such that no CRM takes them

    @property
    def tag(self) -> str:
        return f"trial {self.number}"

    def rows(self, writer: int) -> list[CrmRow]:
        return [
            CrmRow(
                model=LEAD,
                external_id=f"stoker.acme_lead_{self.number}-{nth}",
                values={
                    "name": f"{nth} by {writer}",
                    "partner_name": self.tag,
                    "priority": BAD if nth < self.bad else "1",
                },
                on_create={"type": "lead"},
            )
            for nth in range(self.records)
        ]


async def by_load(crm: Odoo, rows: list[CrmRow]) -> dict[str, RowResult]:
    return await crm.upsert(
        [
            RowWrite(
                row=row, cells={**row.values, **row.on_create}, digest="", before={}, intent={}
            )
            for row in rows
        ]
    )


async def by_search_then_create(crm: Odoo, rows: list[CrmRow]) -> dict[str, RowResult]:
    """The wrong way: look whether it is there, then make it."""
    told = {}
    calls = await crm._get_protocol()
    for row in rows:
        domain = [["description", "=", row.external_id]]
        found = await crm.search(LEAD, domain, fields=["name"], limit=1)
        if found:
            await crm.change(LEAD, [found[0].id], {"name": row.values["name"]})
            id_ = found[0].id
        else:
            values = {**row.values, "description": row.external_id}
            (id_,) = await calls.call(LEAD, "create", {"vals_list": [values]})
        told[row.external_id] = RowResult(external_id=row.external_id, id=id_)
    return told


def racing(
    rng: random.Random, n: int, *, way: Way = by_load, faults: float = 0.04, bad: bool = True
) -> Tally:
    """Let n groups of writers race, by both protocols; tally what a CRM must never show."""
    trials = [
        Trial(
            number=number,
            writers=rng.randint(8, 16),
            records=rng.choice((1, 1, 3)),
            bad=0,
        )
        for number in range(n)
    ]
    for at in range(0, n if bad else 0, 4):
        trials[at] = Trial(number=at, writers=rng.randint(2, 4), records=12, bad=rng.randint(1, 3))
    return asyncio.run(_raced(rng, trials, way, faults))


async def _raced(rng: random.Random, trials: list[Trial], way: Way, faults: float) -> Tally:
    dials = {f"odoo.fault.{fault}": faults for fault in FAULTS} if faults else {}
    async with Sandbox(companies=5, seed=rng.randrange(10**6)) as box:
        http = HttpClient(user_agent="Stoker test", sandbox=box.address)
        try:
            crms = [_crm(http, protocol, rng) for protocol in ("json2", "xmlrpc")]
            for crm in crms:
                await crm.fields(LEAD)
            box.faults.set_value("odoo.latency_low", timedelta(milliseconds=4))
            box.faults.set_value("odoo.latency_high", timedelta(milliseconds=20))
            for name, value in dials.items():
                box.faults.set_value(name, value)
            places = asyncio.Semaphore(AT_ONCE)
            told = await asyncio.gather(*(_one(each, crms, way, places) for each in trials))
            for name in dials:
                box.faults.set_value(name, 0)
            tally = Tally()
            for trial, answers in zip(trials, told, strict=True):
                tally += await _judged(trial, answers, crms[0])
            return tally
        finally:
            await http.close()


def _crm(http: HttpClient, protocol: str, rng: random.Random) -> Odoo:
    return Odoo(
        http,
        url="http://odoo.test",
        database="acme",
        key="odoo-acme-ours",
        login="stoker",
        protocol=protocol,
        deadline=timedelta(seconds=20),
        chance=rng.random,
    )


async def _one(
    trial: Trial, crms: list[Odoo], way: Way, places: asyncio.Semaphore
) -> list[dict[str, RowResult]]:
    async def writer(number: int) -> dict[str, RowResult]:
        try:
            return await way(crms[number % len(crms)], trial.rows(number))
        except StokerError:
            return {}

    async with places:
        return await asyncio.gather(*(writer(number) for number in range(trial.writers)))


async def _judged(trial: Trial, answers: list[dict[str, RowResult]], crm: Odoo) -> Tally:
    tally = Tally(n=1)
    records = await crm.search(LEAD, [["partner_name", "=", trial.tag]], fields=["name"])
    names = Counter(str(each.values["name"]).split()[0] for each in records)
    tally.broken += [f"{trial.tag}: {many} of {nth}" for nth, many in names.items() if many > 1]
    numbers = {each.external_id: each.id for each in records}
    for writer, told in enumerate(answers):
        for nth, row in enumerate(trial.rows(writer)):
            became = told.get(row.external_id)
            if became is None or became.is_retryable:
                continue
            if nth < trial.bad:
                if became.id is not None:
                    tally.broken.append(f"{trial.tag}: a bad row {nth} was acknowledged")
            elif became.id is None:
                tally.broken.append(f"{trial.tag}: a good row {nth} was refused")
            elif row.external_id in numbers and numbers[row.external_id] != became.id:
                tally.broken.append(f"{trial.tag}: acknowledged {nth} as another record")
            elif not names[str(nth)]:
                tally.broken.append(f"{trial.tag}: {nth} was acknowledged and is lost")
            else:
                tally.acked += 1
    return tally


def poisoned(protocol: str, texts: Mapping[str, str]) -> Tally:
    """Put every text into every field we write; it comes back as it was, or is refused."""
    return asyncio.run(_poisoned(protocol, texts))


async def _poisoned(protocol: str, texts: Mapping[str, str]) -> Tally:
    tally = Tally()
    async with Sandbox(companies=5) as box:
        http = HttpClient(user_agent="Stoker test", sandbox=box.address)
        crm = _crm(http, protocol, random.Random(protocol))
        try:
            for model, columns in OWNED.items():
                rows = {
                    (column, what): CrmRow(
                        model=model,
                        external_id=f"stoker.acme_{model.replace('.', '')}{at}x{nth}",
                        values={"name": "n", column: poison},
                    )
                    for at, column in enumerate(columns)
                    for nth, (what, poison) in enumerate(texts.items())
                }
                named = list(rows.items())
                for start in range(0, len(named), ROWS):
                    tally += await _sent(crm, model, dict(named[start : start + ROWS]))
        finally:
            await http.close()
    return tally


async def _sent(crm: Odoo, model: str, rows: Mapping[tuple[str, str], CrmRow]) -> Tally:
    tally, wanted = Tally(n=len(rows)), list(rows.values())
    fields = {model: await crm.fields(model)}
    plan = plan_upserts(wanted, sent={}, there={}, fields=fields)
    told = await crm.upsert(plan.writes)
    known = {id_: each.id for id_, each in told.items() if each.id is not None}
    found = await crm.find_records(wanted, known=known)
    refused = {each.external_id for each in plan.skipped}
    refused |= {id_ for id_, each in told.items() if each.id is None and each.reason}
    for (column, what), row in rows.items():
        if row.external_id in found:
            came_back = found[row.external_id].values[column]
            # The server itself gives a website a scheme and takes scripts out of notes.
            if came_back != normalize_values(model, row.values)[column]:
                tally.broken.append(f"{column}: {what} came back as {came_back!r:.60}")
            tally.acked += 1
        elif row.external_id not in refused:
            tally.broken.append(f"{column}: {what} is lost without a word")
    return tally
