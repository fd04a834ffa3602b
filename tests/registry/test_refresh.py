import contextlib
from dataclasses import replace
from datetime import UTC, date, datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.accounts.icp import IcpRule
from stoker.backends.sqlite import MemoryBackend
from stoker.base.errors import TransientError
from stoker.base.types import Depth, TenantId
from stoker.enrichment.model import WorkItem, WorkState
from stoker.nightly.targets import (
    DepthRule,
    TargetPicker,
    choose_targets,
    compute_rank,
    select_targets,
    update_candidates,
)
from stoker.registry.model import Entity, Load
from stoker.registry.service import refresh_companies
from stoker.testing import FakeClock

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
ACME = TenantId("acme")


def entity(number, *, name="", ssic="62011", live=True):
    said = name or f"COMPANY {number} PTE LTD"
    return Entity(
        uen=f"2020{number:05d}A",
        name=said,
        kind="Local Company",
        status="Live" if live else "Struck Off",
        live=live,
        registered_on=date(2020, 1, 1),
        ssic=ssic,
        digest=f"{said} {ssic} {live}",
    )


class Register:
    """A register one can write batches into, and a tenant that follows it."""

    def __init__(self):
        self.backend, self.clock = MemoryBackend(), FakeClock()
        self.store = self.backend.tenant(ACME)
        self.registry = self.backend.registry()
        self.releases = 0

    async def load(self, *batches):
        self.releases += 1
        load = Load(
            id=f"load {self.releases}",
            release=f"2030-01-{self.releases:02d}",
            part="A",
            source="a test",
            began_at=NOON,
        )
        await self.registry.begin_load(load)
        for batch in batches:
            await self.registry.load_entities(load, batch, now=self.clock.now())
        await self.registry.end_load(load, now=self.clock.now())

    async def refresh(self, page=1000, accounts=None):
        accounts = accounts or self.store.accounts
        return await refresh_companies(self.registry, accounts, clock=self.clock, page=page)

    async def look_at(self, companies):
        """Have companies looked at at noon, by a run of one night."""
        nights, accounts = self.store.work_items, self.store.accounts
        for place, company in enumerate(companies):
            unit = WorkItem(company=company, rank=place, depth=Depth.DEEP, state=WorkState.WAITING)
            await nights.insert_items("20261116_120000", [unit])
            known = await accounts.find_company_record(company)
            done = replace(unit, state=WorkState.DONE)
            assert await nights.finish_item("20261116_120000", done, replace(known, looked_at=NOON))

    async def names(self):
        return {each.id: each.name for each in await self.store.accounts.list_companies()}


class Dying:
    """Accounts whose process is gone after so many verbs."""

    def __init__(self, accounts, verbs):
        self._accounts, self._left = accounts, verbs

    def __getattr__(self, verb):
        self._left -= 1
        if self._left < 0:
            raise TransientError("gone")
        return getattr(self._accounts, verb)


async def test_what_is_new_or_changed_is_taken_over_once():
    register = Register()
    await register.load([entity(1), entity(2)])
    first = await register.refresh()
    nothing = await register.refresh()
    await register.load([entity(2, name="OTHER PTE LTD"), entity(3)])
    first, nothing, second, names = first, nothing, await register.refresh(), await register.names()

    assert (first.read, first.new) == (2, 2)
    assert nothing.read == 0
    assert (second.read, second.new, second.changed) == (2, 1, 1)
    assert names["202000002A"] == "OTHER PTE LTD"


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=12), min_size=1, max_size=4),
    st.integers(1, 5),
    st.integers(0, 12),
)
async def test_a_refresh_that_dies_anywhere_loses_no_company(batches, page, verbs):
    wanted = {entity(n).uen for batch in batches for n in batch}

    register = Register()
    await register.load(*[[entity(n) for n in dict.fromkeys(batch)] for batch in batches])
    with contextlib.suppress(TransientError):
        await register.refresh(page, Dying(register.store.accounts, verbs))
    await register.refresh(page)
    assert set(await register.names()) == wanted


async def test_companies_that_are_gone_or_do_not_fit_are_no_candidates():
    register = Register()
    await register.load([entity(1), entity(2, live=False), entity(3, ssic="01111")])
    await register.refresh()
    accounts = register.store.accounts
    found = await update_candidates(accounts, IcpRule(), page=1)
    assert (found, [each.id for each in await accounts.list_candidates(rule="default")]) == (
        1,
        ["202000001A"],
    )


@settings(deadline=None, max_examples=40)
@given(
    number=st.integers(0, 25),
    cap=st.integers(0, 12),
    limit=st.none() | st.integers(0, 12),
    pull_units=st.integers(0, 40),
    page=st.integers(1, 7),
    looked=st.sets(st.integers(0, 24), max_size=6),
    day=st.none() | st.just(NOON),
    again=st.booleans(),
)
async def test_choosing_page_by_page_is_choosing_from_all_at_once(
    number, cap, limit, pull_units, page, looked, day, again
):
    register = Register()
    await register.load([entity(n) for n in range(number)])
    await register.refresh()
    accounts, rule = register.store.accounts, IcpRule()
    await update_candidates(accounts, rule, page=page)
    await register.look_at(entity(n).uen for n in looked if n < number)
    places = {"cap": cap, "limit": limit, "day_began_at": day, "again": again}
    how = {"now": NOON, "pull_units": pull_units}
    targets = TargetPicker(**places)
    paged = await select_targets(accounts, rule, targets, depths=DepthRule(), page=page, **how)
    everybody = await accounts.list_candidates(rule=rule.name)
    paged, at_once = paged, choose_targets(sorted(everybody, key=compute_rank), **places, **how)
    assert paged == at_once


async def test_whoever_is_no_candidate_any_more_has_had_its_look_of_the_day():
    register = Register()
    await register.load([entity(n) for n in range(6)])
    await register.refresh()
    accounts, rule = register.store.accounts, IcpRule()
    ids = [entity(n).uen for n in range(6)]
    await register.look_at(ids[:3])
    await accounts.save_candidates(ids[2:], rule=rule.name)
    targets = TargetPicker(cap=4, day_began_at=NOON)
    ids, chosen = ids, await select_targets(accounts, rule, targets, now=NOON, depths=DepthRule())
    assert [unit.company for unit in chosen.items] == [ids[3]]
    assert (chosen.visited_today, chosen.over_cap) == (1, 2)
