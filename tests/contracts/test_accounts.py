"""What every store promises about tenants, their rules and their companies."""

import asyncio
from dataclasses import replace
from datetime import timedelta, timezone

from contracts.accounts import (
    LATER_RUN,
    RUN,
    bare,
    company,
    connection,
    contact,
    dossier,
    ended,
    finding,
    planned,
    score,
    site,
    taken,
    tenant,
)
from contracts.backends import ACME, UMBRELLA, refused
from contracts.knowledge import HOUR, NOW
from stoker.accounts.icp import IcpRule
from stoker.accounts.model import (
    Candidate,
    CompanyRecord,
    EmailStatus,
    SiteOwner,
    SiteVerdict,
    UpsertCount,
)
from stoker.base.errors import ConfigError

LATER = NOW + HOUR


async def looked_at(store, found, *, run=RUN):
    """Write a dossier in the only way there is: as the end of a unit."""
    uens = {"T0": 1, "T1": 2, "T2": 3, "T3": 4}
    await planned(store.work_items, uens[found.company.id], run=run)
    mine = {one.company: one for one in await taken(store.work_items, run=run)}
    one = mine[found.company.id]
    assert await store.work_items.finish_item(run, ended(one), found)


async def test_the_directory_knows_who_the_tenants_are_in_id_order(backend):
    directory = backend.directory()
    assert await directory.list_tenants() == []
    assert await directory.save_tenant(tenant("umbrella"))
    assert await directory.save_tenant(tenant())
    assert not await directory.save_tenant(tenant())
    assert await directory.save_tenant(tenant("umbrella", active=False))
    assert await directory.save_tenant(tenant("umbrella", active=False, name=""))
    assert await backend.directory().list_tenants() == [
        tenant(),
        tenant("umbrella", active=False, name=""),
    ]


async def test_who_cannot_be_a_tenant_is_not_listed(backend):
    directory = backend.directory()
    for name in ("", "ACME", "a b", "0-operators", "a\0"):
        await refused(directory.save_tenant(tenant(name)), ConfigError)
    await refused(directory.save_tenant(tenant(name="half \ud800")))
    assert await directory.list_tenants() == []


async def test_people_rules_and_the_connection_come_back_as_they_were_last_put(store):
    accounts = store.accounts
    assert await accounts.find_rule("default") is None
    assert await store.setup.find_connection() is None
    plain, narrow = IcpRule(), IcpRule(name="narrow", industries=("62011",), years=(2010, 2020))
    await accounts.save_rule(plain)
    await accounts.save_rule(replace(narrow, industries=()))
    await accounts.save_rule(narrow)
    assert await accounts.find_rule("default") == plain
    assert await accounts.find_rule("narrow") == narrow

    await store.setup.save_connection(connection())
    await store.setup.save_connection(connection(active=False, key_expires_at=None))
    assert await store.setup.find_connection() == connection(active=False, key_expires_at=None)


async def test_a_step_of_setting_up_is_done_when_it_was_first_done(store):
    await store.setup.complete_setup_step("find_rule", at=LATER)
    await store.setup.complete_setup_step("crm", at=NOW)
    await store.setup.complete_setup_step("find_rule", at=NOW)
    assert list((await store.setup.list_setup_steps()).items()) == [
        ("crm", NOW),
        ("find_rule", LATER),
    ]


async def test_the_registry_cursor_is_the_last_one_set_also_if_earlier(store):
    assert await store.accounts.find_registry_cursor() is None
    await store.accounts.save_candidates(["T1"], rule="default")
    assert await store.accounts.find_registry_cursor() is None
    for at in (LATER, NOW):
        await store.accounts.set_registry_cursor(at.astimezone(timezone(timedelta(hours=8))))
        assert await store.accounts.find_registry_cursor() == at
    await refused(store.accounts.set_registry_cursor(NOW.replace(tzinfo=None)), ConfigError)


async def test_companies_are_counted_as_new_changed_and_the_same(store):
    accounts = store.accounts
    first = [company("T2"), company("T1")]
    assert await accounts.upsert_companies(first, now=NOW) == UpsertCount(new=2)
    again = [company("T1"), company("T2", name="NEW"), company("T3")]
    counts = await accounts.upsert_companies(again, now=LATER)
    assert counts == UpsertCount(new=1, changed=1, same=1)
    assert await accounts.list_companies() == [
        company("T1", last_seen_at=NOW),
        company("T2", name="NEW", last_seen_at=LATER),
        company("T3", last_seen_at=LATER),
    ]
    assert await accounts.upsert_companies([], now=NOW) == UpsertCount()


async def test_what_is_empty_never_replaces_a_value(store):
    accounts = store.accounts
    await accounts.upsert_companies([company()], now=NOW)
    assert await accounts.upsert_companies([bare()], now=LATER) == UpsertCount(same=1)
    assert await accounts.list_companies() == [company(last_seen_at=NOW)]
    closed = bare(live=False, employees=0)
    assert await accounts.upsert_companies([closed], now=LATER) == UpsertCount(changed=1)
    assert await accounts.list_companies() == [
        company(live=False, employees=0, last_seen_at=LATER),
    ]


async def test_when_a_company_was_last_seen_is_the_stores_to_say_and_never_goes_back(store):
    accounts = store.accounts
    await accounts.upsert_companies([company(last_seen_at=LATER + HOUR)], now=LATER)
    assert await accounts.list_companies() == [company(last_seen_at=LATER)]
    same = company(last_seen_at=NOW)
    assert await accounts.upsert_companies([same], now=NOW) == UpsertCount(same=1)
    await accounts.upsert_companies([company(year=2016)], now=NOW)
    assert await accounts.list_companies() == [company(year=2016, last_seen_at=LATER)]


async def test_the_same_company_twice_is_one_after_the_other(store):
    twice = [company("T2"), company(), company("T2", year=2016), bare("T2"), company("T2")]
    counts = await store.accounts.upsert_companies(twice, now=NOW)
    assert counts == UpsertCount(new=2, changed=2, same=1)
    assert await store.accounts.list_companies() == [
        company(last_seen_at=NOW),
        company("T2", last_seen_at=NOW),
    ]


async def test_companies_come_in_pages(store):
    uens = [f"T{n:04}" for n in range(1_203)]
    await store.accounts.upsert_companies([company(uen) for uen in uens], now=NOW)
    found, after = [], ""
    while page := await store.accounts.list_companies(after=after, limit=500):
        found += [one.id for one in page]
        after = page[-1].id
    assert found == uens
    again = await store.accounts.upsert_companies([company(uen) for uen in uens], now=NOW)
    assert again == UpsertCount(same=1_203)


async def test_what_comes_while_pages_are_read_breaks_none_of_them(store):
    accounts, first = store.accounts, [f"T{n:03}" for n in range(60)]
    await accounts.upsert_companies([company(uen) for uen in first], now=NOW)

    async def read():
        found, after = [], ""
        while page := await accounts.list_companies(after=after, limit=7):
            found += [one.id for one in page]
            after = page[-1].id
        return found

    async def write():
        for n in range(20):
            some = [company(f"T{n:03}x"), company(f"T{n:03}", year=1990 + n)]
            await accounts.upsert_companies(some, now=LATER)

    found, _ = await asyncio.gather(read(), write())
    assert found == sorted(set(found))
    assert set(first) <= set(found)


async def test_candidates_are_those_that_fit_now_and_no_longer_those_before(store):
    accounts = store.accounts
    await accounts.upsert_companies([company(f"T{n}") for n in range(5)], now=NOW)
    await accounts.save_candidates(["T3", "T1", "T1", "nobody"], rule="default")
    await accounts.save_candidates(["T0"], rule="other")
    await accounts.save_candidates(["T4", "T3", "T2"], rule="default")

    async def ids(**page):
        return [one.id for one in await accounts.list_candidates(rule="default", **page)]

    assert await ids() == ["T2", "T3", "T4"]
    assert await ids(limit=2) == ["T2", "T3"]
    assert await ids(after="T2", limit=1) == ["T3"]
    await accounts.save_candidates([], rule="default")
    assert await ids() == []
    assert len(await accounts.list_candidates(rule="other")) == 1
    assert await accounts.list_candidates(rule="nobody's") == []


async def test_candidates_can_be_put_page_by_page_and_only_those_between_change(store):
    accounts = store.accounts
    await accounts.upsert_companies([company(f"T{n}") for n in range(6)], now=NOW)

    async def ids():
        return [one.id for one in await accounts.list_candidates(rule="default")]

    await accounts.save_candidates(["T0", "T2", "T4"], rule="default")
    await accounts.save_candidates(["T1", "T5"], rule="default", after="T0", upto="T2")
    assert await ids() == ["T0", "T1", "T4"]
    await accounts.save_candidates(["T3", "T1"], rule="default", after="T2")
    assert await ids() == ["T0", "T1", "T3"]
    await accounts.save_candidates([], rule="default", upto="T0")
    assert await ids() == ["T1", "T3"]


async def test_a_candidate_that_is_no_company_yet_is_one_once_it_is(store):
    await store.accounts.save_candidates(["T0", "T1"], rule="default")
    assert await store.accounts.list_candidates(rule="default") == []
    await store.accounts.upsert_companies([company()], now=NOW)
    assert len(await store.accounts.list_candidates(rule="default")) == 1


async def test_a_candidate_says_what_choosing_needs(store):
    accounts = store.accounts
    await accounts.upsert_companies([company("T0"), company("T1")], now=NOW)
    await accounts.save_candidates(["T0", "T1"], rule="default")
    never = Candidate(id="T0", scored=False, contacts=0, last_seen_at=NOW)
    assert await accounts.list_candidates(rule="default") == [never, replace(never, id="T1")]
    await looked_at(store, dossier("T1", looked_at=LATER))
    seen = Candidate(id="T1", scored=True, contacts=2, last_seen_at=NOW, last_looked_at=LATER)
    assert await accounts.list_candidates(rule="default") == [never, seen]


async def test_those_who_put_candidates_at_once_come_one_after_the_other(store):
    accounts = store.accounts
    await accounts.upsert_companies([company(f"T{n:02}") for n in range(40)], now=NOW)
    sets = [[f"T{n:02}" for n in range(5 * k, 5 * k + 10)] for k in range(6)]
    await asyncio.gather(*(accounts.save_candidates(some, rule="default") for some in sets))
    found = [one.id for one in await accounts.list_candidates(rule="default")]
    assert found in sets


async def test_a_company_never_looked_up_has_an_empty_record(store):
    assert await store.accounts.find_company_record("T1") is None
    await store.accounts.upsert_companies([company()], now=NOW)
    found = await store.accounts.find_company_record("T1")
    assert found == CompanyRecord(company=company(last_seen_at=NOW))
    assert await store.accounts.list_company_records() == []


async def test_a_dossier_comes_back_as_it_was(store):
    for found in (
        dossier("T1"),
        dossier("T3", site=site(SiteOwner.CONFIRMED, proof="p", source="https://t3.test/")),
        dossier(
            "T2", contacts=(contact(), contact(), contact(email="", verdict=EmailStatus.VALID))
        ),
    ):
        await looked_at(store, found, run=f"run of {found.company.id}")
        assert await store.accounts.find_company_record(found.company.id) == found
    assert [one.company.id for one in await store.accounts.list_company_records()] == [
        "T1",
        "T2",
        "T3",
    ]


async def test_a_newer_dossier_replaces_what_was_known_but_not_with_nothing(store):
    await looked_at(store, dossier())
    empty = CompanyRecord(company=bare())
    await looked_at(store, empty, run=LATER_RUN)
    assert await store.accounts.find_company_record("T1") == dossier()
    newer = dossier(
        company=company(website="https://new.test", last_seen_at=LATER),
        facts=(finding(value="2"),),
        contacts=(contact(email="", phone="", verdict=EmailStatus.UNVERIFIED),),
        score=score(0.1),
        looked_at=LATER,
        run=LATER_RUN,
        extracted_from="new",
        notes={"other": "note"},
        site=site(SiteOwner.PROBABLE),
    )
    await looked_at(store, newer, run="third")
    assert await store.accounts.find_company_record("T1") == newer
    earlier = replace(newer, company=company(website="https://new.test", last_seen_at=NOW))
    await looked_at(store, earlier, run="fourth")
    assert await store.accounts.find_company_record("T1") == newer


async def test_a_website_that_a_person_gives_is_stored_with_whose_it_is(store):
    await looked_at(store, dossier(site=site(SiteOwner.PROBABLE)))
    await store.accounts.upsert_companies([bare("T2")], now=NOW)
    assert await store.accounts.give_website("T1", "https://given.test/")
    assert await store.accounts.give_website("T2", "https://given.test/")
    assert not await store.accounts.give_website("T9", "https://given.test/")
    seen, new = [await store.accounts.find_company_record(id_) for id_ in ("T1", "T2")]
    assert seen.company.website == new.company.website == "https://given.test/"
    assert seen.site == SiteVerdict(host="given.test", owner=SiteOwner.GIVEN)
    assert (new.site, new.looked_at) == (None, None)


async def test_what_the_register_says_leaves_what_was_found_out_alone(store):
    await looked_at(store, dossier())
    await store.accounts.upsert_companies([bare(name="RENAMED")], now=LATER)
    renamed = company(name="RENAMED", last_seen_at=LATER)
    assert await store.accounts.find_company_record("T1") == dossier(company=renamed)


async def test_dossiers_are_found_by_run_and_by_score_in_pages(store):
    for n, run in enumerate([RUN, LATER_RUN, RUN, RUN]):
        made = dossier(f"T{n}", run=run, score=score(n / 4) if n else None)
        await looked_at(store, made, run=f"by {n}")

    async def ids(**asked):
        return [one.company.id for one in await store.accounts.list_company_records(**asked)]

    assert await ids() == ["T0", "T1", "T2", "T3"]
    assert await ids(run=RUN) == ["T0", "T2", "T3"]
    assert await ids(run=RUN, limit=2) == ["T0", "T2"]
    assert await ids(run=RUN, after="T0", limit=1) == ["T2"]
    assert await ids(run="nobody's") == []
    assert await ids(least=0.0) == ["T1", "T2", "T3"]
    assert await ids(least=0.5) == ["T2", "T3"]
    assert await ids(least=0.51, run=RUN) == ["T3"]
    assert await ids(least=1.0) == []


async def test_one_tenant_knows_nothing_of_anothers_accounts(backend):
    ours, theirs = backend.tenant(ACME), backend.tenant(UMBRELLA)
    await looked_at(ours, dossier())
    await ours.accounts.save_rule(IcpRule())
    await ours.setup.save_connection(connection())
    await ours.setup.complete_setup_step("crm", at=NOW)
    await ours.accounts.set_registry_cursor(NOW)
    await ours.accounts.save_candidates(["T1"], rule="default")

    for verb in (
        "list_companies",
        "list_company_records",
        "find_registry_cursor",
    ):
        assert not await getattr(theirs.accounts, verb)()
    assert await theirs.setup.find_connection() is None
    assert await theirs.setup.list_setup_steps() == {}
    assert await theirs.accounts.find_rule("default") is None
    assert await theirs.accounts.find_company_record("T1") is None
    assert await theirs.accounts.list_candidates(rule="default") == []

    await looked_at(theirs, dossier(contacts=(contact(name="Theirs"),), score=score(0.0)))
    await theirs.accounts.save_candidates([], rule="default")
    await theirs.accounts.upsert_companies([company(name="THEIRS")], now=LATER)
    assert await ours.accounts.find_company_record("T1") == dossier()
    assert len(await ours.accounts.list_candidates(rule="default")) == 1


async def test_those_who_upsert_the_same_companies_at_once_all_get_through(store):
    uens = [f"T{n}" for n in range(20)]
    parts = [{"website": "https://w.test"}, {"employees": 7}, {"year": 1999}, {"name": "N"}]
    counts = await asyncio.gather(
        *(
            store.accounts.upsert_companies(
                [bare(uen, **parts[n % 4]) for uen in uens[:: 1 if n % 2 else -1]], now=NOW
            )
            for n in range(8)
        )
    )
    assert sum(count.new + count.changed + count.same for count in counts) == 160
    whole = {"website": "https://w.test", "employees": 7, "year": 1999, "name": "N"}
    assert await store.accounts.list_companies() == [
        bare(uen, **whole, last_seen_at=NOW) for uen in sorted(uens)
    ]


async def test_accounts_that_a_person_gives_fit_and_keep_what_they_were_given(store):
    accounts, given = store.accounts, bare("X9", website="https://x9.test/", posture=0.9)
    assert await accounts.import_accounts([given, bare("X8")], rule="default", now=NOW) == (
        UpsertCount(new=2)
    )
    again = [given, bare("X8"), bare("X7", name="Seven")]
    assert await accounts.import_accounts(again, rule="default", now=LATER) == (
        UpsertCount(new=1, same=2)
    )
    listed = {one.id: one for one in await accounts.list_companies()}
    assert {one: (each.name, each.posture) for one, each in listed.items()} == {
        "X7": ("Seven", None),
        "X8": ("X8", None),  # some name is needed
        "X9": ("x9.test", 0.9),
    }
    assert all(each.is_given for each in listed.values())
    assert listed["X9"].last_seen_at == NOW  # the second import changed nothing
    candidates = await accounts.list_candidates(rule="default")
    assert [(one.id, one.posture) for one in candidates] == [
        ("X7", None),
        ("X8", None),
        ("X9", 0.9),
    ]

    # The register and a lookup add to it, and take nothing of it back.
    await accounts.upsert_companies([company("X9", name="X9 PTE. LTD.", website="")], now=LATER)
    [known] = [one for one in await accounts.list_companies() if one.id == "X9"]
    assert (known.name, known.website) == ("X9 PTE. LTD.", "https://x9.test/")
    assert (known.is_given, known.posture) == (True, 0.9)
    assert await accounts.find_names(["X9", "unknown"]) == {"X9": "X9 PTE. LTD."}


async def test_an_import_replaces_what_was_found_and_leaves_what_it_does_not_name(store):
    accounts = store.accounts
    await accounts.upsert_companies([company("T1", live=False)], now=NOW)
    counted = await accounts.import_accounts(
        [bare("T1", website="https://own.test/", posture=0.0)], rule="default", now=LATER
    )
    assert counted == UpsertCount(changed=1)
    record = await accounts.find_company_record("T1")
    assert record.company == company(
        "T1",
        live=False,  # a dissolved company does not come back by being listed …
        website="https://own.test/",
        posture=0.0,
        is_given=True,
        last_seen_at=LATER,
    )
    assert await accounts.list_candidates(rule="default") == []  # … and is not looked up
    assert await accounts.import_accounts([bare("T1")], rule="default", now=LATER) == (
        UpsertCount(same=1)
    )


async def test_no_account_of_an_import_is_written_when_one_cannot_be(store):
    await refused(store.accounts.import_accounts([bare("X1"), bare("")], rule="default", now=NOW))
    assert await store.accounts.import_accounts([], rule="default", now=NOW) == UpsertCount()
    assert await store.accounts.list_companies() == []
