"""Puts hostile texts into every text field of the stores and reads them back.

Used with few texts by the tests and with many by `proof.web`.
"""

from dataclasses import fields, replace

from contracts.accounts import (
    bare,
    company,
    connection,
    contact,
    dossier,
    ended,
    finding,
    score,
    sent,
    taken,
    unit,
)
from contracts.attending import AT_ONCE, BELIEFS, look, plan, signal
from contracts.backends import ACME
from contracts.knowledge import HOUR, NOW, answer, entity, load, page
from faults.tally import Tally
from stoker.accounts.icp import IcpRule
from stoker.base.errors import ConfigError, PermanentError

SITE = "acme.test"
ENTITY_TEXTS = (
    "uen", "name", "kind", "company_type", "status", "ssic", "ssic_secondary", "activity",
    "street", "postal_code", "digest",
)  # fmt: skip


async def save_record(backend, make, text, n):
    """Finish a lookup of a company of its own with this record."""
    stores, uen, run = backend.tenant(ACME), f"T{n}", f"run {n}"
    record = make(uen, text)
    await stores.work_items.insert_items(run, [unit(0, company=uen)])
    [item] = await taken(stores.work_items, run=run)
    try:
        await stores.work_items.finish_item(run, ended(item), record)
    except PermanentError:
        assert await stores.accounts.find_company_record(uen) is None
        assert await stores.work_items.list_items(run) == [item]
        raise
    return await stores.accounts.find_company_record(uen) == record


async def save_item(backend, make, text, n):
    nights, item = backend.tenant(ACME).work_items, make(text)
    await nights.insert_items(f"{n}", [item])
    return await nights.list_items(f"{n}") == [item]


async def save_sent_row(backend, make, text, n):
    crm, row = backend.tenant(ACME).crm, replace(make(text), at=NOW + n * HOUR)
    await crm.save_sent_rows([row])
    found = (await crm.find_sent_rows([row.external_id]))[row.external_id]
    return replace(found, before=row.before) == row


async def save_sent_before(backend, make, text, n):
    crm, row = backend.tenant(ACME).crm, make(f"stoker.{n}", text)
    await crm.save_sent_rows([row])
    return await crm.find_sent_rows([row.external_id]) == {row.external_id: row}


async def save_entity(backend, make, text, n):
    registry, given = backend.registry(), make(f"T{n}", text)
    await registry.begin_load(load())
    await registry.load_entities(load(), [given], now=NOW)
    return replace(await registry.find_entity(given.uen), changed_at=None) == given


async def save_page(backend, make, text, n):
    pages, given = backend.tenant(ACME).pages, make(text)
    await pages.save_pages(SITE, [given])
    return given in await pages.list_pages(SITE)


async def save_answer(backend, make, text, n):
    answers, given = backend.tenant(ACME).answers, make(text)
    await answers.save_answers([given])
    return await answers.find_answers([given.key]) == {given.key: given}


async def save_signal(backend, make, text, n):
    heats, given = backend.tenant(ACME).heat, make(text, f"T{n}")
    await heats.add_signals([given], **AT_ONCE)
    return await heats.list_signals(given.account) == [given]


async def save_lookup(backend, make, text, n):
    heats, given = backend.tenant(ACME).heat, make(text, f"T{n}")
    counts = [await heats.record_lookups([given], rule=BELIEFS) for _ in range(2)]
    rates = await heats.list_change_rates()
    return counts == [1, 0] and given.account in [rate.account for rate in rates]


async def save_plan(backend, make, text, n):
    plans, given = backend.tenant(ACME).plans, make(text, f"{n}")
    await plans.insert_plan(given, [b"x"])
    return await plans.find_plan(given.run) == given


async def save_posture(backend, make, text, n):
    heats = backend.tenant(ACME).heat
    await heats.update_postures({text: 0.5}, **AT_ONCE)
    heat = await heats.find_heat(text)
    return await heats.update_heats([heat], expected=[heat]) == 1


async def save_connection(backend, make, text, n):
    setup, given = backend.tenant(ACME).setup, make(text)
    await setup.save_connection(given)
    return await setup.find_connection() == given


async def save_rule(backend, make, text, n):
    accounts = backend.tenant(ACME).accounts
    await accounts.save_rule(IcpRule(name=text))
    return await accounts.find_rule(text) == IcpRule(name=text)


async def save_setup_step(backend, make, text, n):
    setup = backend.tenant(ACME).setup
    await setup.complete_setup_step(text, at=NOW)
    return text in await setup.list_setup_steps()


async def save_company_id(backend, make, text, n):
    accounts = backend.tenant(ACME).accounts
    await accounts.upsert_companies([bare(text)], now=NOW)
    return text in [one.id for one in await accounts.list_companies()]


async def save_candidate(backend, make, text, n):
    accounts = backend.tenant(ACME).accounts
    rule, uen = make(text)
    await accounts.upsert_companies([company(uen)], now=NOW)
    await accounts.save_candidates([uen], rule=rule)
    return uen in [one.id for one in await accounts.list_candidates(rule=rule)]


def list_texts(value):
    return [one.name for one in fields(value) if type(getattr(value, one.name)) is str]


FIELDS = {
    **{
        f"company.{name}": (
            save_record,
            lambda uen, text, name=name: dossier(
                uen, company=company(uen, last_seen_at=NOW, **{name: text})
            ),
        )
        for name in list_texts(company())
        if name != "id"
    },
    **{
        f"{kind}.{name}": (
            save_record,
            lambda uen, text, build=build, name=name: dossier(uen, **build(**{name: text})),
        )
        for kind, build, value in (
            ("fact", lambda **text: {"facts": (finding(**text),)}, finding()),
            ("contact", lambda **text: {"contacts": (contact(**text),)}, contact()),
            ("score", lambda **text: {"score": score(**text)}, score()),
            ("record", dict, dossier()),
        )
        for name in list_texts(value)
    },
    "record.notes": (save_record, lambda uen, text: dossier(uen, notes={"a": text, text: ""})),
    "score.features": (
        save_record,
        lambda uen, text: dossier(uen, score=score(features={text: 0.5})),
    ),
    "item.company": (save_item, lambda text: unit(company=text)),
    "item.owner": (save_item, lambda text: unit(owner=text)),
    "item.reason": (save_item, lambda text: unit(reason=text)),
    "item.reasons": (save_item, lambda text: unit(reasons=("a", text))),
    "item.cost": (save_item, lambda text: unit(cost={text: 1})),
    "item.saved": (save_item, lambda text: unit(saved={text: 1})),
    "item.seconds": (save_item, lambda text: unit(seconds={text: 1.5})),
    "sent.external_id": (save_sent_row, sent),
    "sent.model": (save_sent_row, lambda text: sent(model=text)),
    "sent.digest": (save_sent_row, lambda text: sent(digest=text)),
    "sent.values": (save_sent_row, lambda text: sent(values={text: [text]})),
    "sent.run": (save_sent_row, lambda text: sent(run=text)),
    "sent.before": (save_sent_before, lambda name, text: sent(name, before={"a": {text: text}})),
    **{
        f"entity.{name}": (
            save_entity,
            lambda uen, text, name=name: replace(entity(uen), **{name: text}),
        )
        for name in ENTITY_TEXTS
    },
    "entity.raw": (save_entity, lambda uen, text: entity(uen, raw={"entity_name": text})),
    "entity.former_names": (save_entity, lambda uen, text: entity(uen, former_names=("a", text))),
    **{
        f"page.{name}": (save_page, lambda text, name=name: replace(page(), **{name: text}))
        for name in list_texts(page())
    },
    **{
        f"answer.{name}": (save_answer, lambda text, name=name: replace(answer(), **{name: text}))
        for name in ("key", "connector", "answer")
    },
    "signal.id": (save_signal, lambda text, uen: signal(text, account=uen)),
    "signal.account": (save_signal, lambda text, uen: signal(uen, account=text)),
    "signal.source": (save_signal, lambda text, uen: signal(uen, account=uen, source=text)),
    "lookup.key": (save_lookup, lambda text, uen: look(text, account=uen)),
    "lookup.account": (save_lookup, lambda text, uen: look(uen, account=text)),
    "plan.run": (save_plan, lambda text, _: plan(text)),
    "plan.policy": (save_plan, lambda text, run: plan(run, policy=text)),
    "plan.header": (save_plan, lambda text, run: plan(run, header={text: [text]})),
    "posture.account": (save_posture, None),
    **{
        f"connection.{name}": (
            save_connection,
            lambda text, name=name: connection(**{name: text}),
        )
        for name in ("url", "kind", "database")
    },
    "rule.name": (save_rule, None),
    "setup step": (save_setup_step, None),
    "company.id": (save_company_id, None),
    "candidates.rule": (save_candidate, lambda text: (text, "T1")),
    "candidate": (save_candidate, lambda text: ("default", text)),
}


async def save_texts(backend, label, texts, *, first=0) -> Tally:
    """Count the texts a field stores; list those that came back changed or failed otherwise."""
    (save, make), tally = FIELDS[label], Tally()
    for n, text in enumerate(texts, start=first):
        tally.n += 1
        try:
            is_same = await save(backend, make, text, n)
        except (PermanentError, ConfigError) as error:
            if "\n" in str(error) or "\0" in str(error):
                tally.broken.append(f"{label}: {text[:20]!r} is in the error")
            continue
        tally.acked += 1
        if not is_same:
            tally.broken.append(f"{label}: {text[:40]!r} came back changed")
    return tally
