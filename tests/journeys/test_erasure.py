"""One person is erased everywhere, for good, and nobody else is touched."""

import json
import logging
from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest

from night_house import ACME, BOLT, Crm, Days
from stoker.accounts.erasure import ERASED, ERASED_EMAIL, Person, is_named_after
from stoker.accounts.model import EmailStatus
from stoker.base.errors import TransientError
from stoker.base.types import Step
from stoker.crawl.model import PageState
from stoker.heat.model import Signal, SignalKind
from stoker.maintenance.erasure import ErasureRequest, erase_person
from stoker.sandbox.server import HANDLERS, Sandbox
from stoker.touches.model import Profile
from stoker.touches.setup import build_touch_service, read_profiles
from stoker.vendors.model import CachedAnswer
from watched_box import RETICENT

KEEPS_TEXTS = "crawl.persist_corpus = true\nscore.min_export = 0.0\n"


async def everybody(house, tenant=ACME):
    return {
        (record.company.id, contact.key): contact
        for record in await house.records(tenant)
        for contact in record.contacts
    }


async def choose_person(house):
    """Return a person that a site gives by address and by name, and its company."""
    people = await everybody(house)
    for (company, _), contact in sorted(people.items()):
        if contact.verdict is EmailStatus.UNVERIFIED:
            continue
        for (other, _), named in sorted(people.items()):
            if contact.email and company == other and is_named_after(contact.email, named.name):
                return company, replace(contact, name=named.name)
    raise AssertionError("no site gives a person both ways")


async def all_texts(house, tenant=ACME):
    """Return every row of every table of a tenant, in small letters."""
    backend = house.app.backend

    def read(tx):
        return {
            table.name: repr(tx.query(f"SELECT * FROM {table.name} WHERE tenant_id = :tenant"))
            for table in backend.list_tables()
            if table.tenant
        }

    rows = await backend.for_tenant(tenant).read(read)
    return {name: text.lower() for name, text in rows.items()}


def has_any(text, canaries):
    """Return whether one of these is there, and not only as the beginning of another's address."""
    return any(each.lower() in text.replace(f"{each.lower()}.sg", "") for each in canaries)


def list_places(texts, *canaries):
    return sorted(name for name, text in texts.items() if has_any(text, canaries))


def list_files_with(folder, *canaries):
    """Return the store's files whose bytes contain any of these."""
    return [
        file.name
        for file in sorted(folder.glob("*.db*"))
        if has_any(file.read_bytes().lower().decode("latin-1"), canaries)
    ]


def listening_internet(heard, vendors=HANDLERS):
    """A make-believe internet that remembers what its vendors are told, in small letters."""

    def listening(maker):
        def made(*given):
            handler = maker(*given)

            def handled(asked):
                heard.append(asked.body.lower())
                return handler(asked)

            return handled

        return made

    vendors = {host: listening(maker) for host, maker in vendors.items()}
    return Sandbox(companies=1000, seed=1, dials={"zerobounce.calls": 10**6}, vendors=vendors)


async def forget_pages(house):
    """Let the next night read all sites as if for the first time."""
    tenant = house.app.backend.for_tenant(ACME)
    await tenant.write(lambda tx: tx.execute("DELETE FROM site_pages WHERE tenant_id = :tenant"))


def list_own_pages(person, now):
    slug = person.name.lower().replace(" ", "-")
    return [
        PageState(url=f"https://own.test/team/{name}", status=200, seen_at=now, changed_at=now)
        for name in (slug, "else-one")
    ]


async def plant(house, person, profile):
    """Have a person wherever a tenant's store can have one."""
    store, now = house.store(), house.app.clock.now()
    await store.touches.save_profiles(
        [Profile(url=profile, name=person.name), Profile(url="https://in.test/x", name="Else One")]
    )
    company, _ = await choose_person(house)
    await store.pages.save_pages("own.test", list_own_pages(person, now))
    signals = [
        Signal(id=source, account=company, kind=SignalKind.IMPORTED, at=now, source=source)
        for source in (person.email, person.name, f"{person.email}.sg")
    ]
    own = house.app.for_tenant(ACME).settings.heat
    await store.heat.add_signals(signals, rule=own, now=now)


PROFILE = "https://www.linkedin.test/in/one-person"


async def test_no_trace_of_an_erased_person_is_left_and_others_stay(anywhere, tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    clock = Days()
    heard = []
    async with (
        listening_internet(heard) as box,
        anywhere(companies=6, clock=clock, more=KEEPS_TEXTS, box=box) as house,
    ):
        await house.nights(ACME, BOLT)
        company, person = await choose_person(house)
        await plant(house, person, PROFILE)
        slug = person.name.replace(" ", "-")
        canaries = (person.email, person.name, slug, PROFILE.removeprefix("https://www."))
        before, others = await everybody(house), await all_texts(house, BOLT)
        places = list_places(await all_texts(house), *canaries)
        assert {"contacts", "lead_emails", "vendor_answers", "crm_sent_rows"} <= set(places)
        assert {"account_signals", "site_pages", "touch_profiles"} <= set(places)
        exported = tmp_path / "exports"
        exported.mkdir()
        (exported / "leads.csv").write_text(f"name,email\n{person.name},{person.email}\n")
        (exported / "other.csv").write_text("name,email\nElse One,else@one.test\n")
        request = ErasureRequest(email=person.email.upper(), profiles=(PROFILE,))
        tenant = house.app.for_tenant(ACME)

        in_files = not house.app.backend.is_postgres
        assert bool(list_files_with(tmp_path, person.email)) is in_files
        dry = await erase_person(tenant, request, folders=[exported], dry=True)
        assert list_places(await all_texts(house), *canaries) == places
        assert (dry.contacts, dry.companies) == (1, 1)

        done = await erase_person(tenant, request, folders=[exported])
        assert done.contacts == 1
        assert [path.name for path in done.files] == ["leads.csv"]
        assert list_places(await all_texts(house), *canaries) == []
        assert f"{person.email}.sg" in (await all_texts(house))["account_signals"]
        assert await all_texts(house, BOLT) == others
        await erase_person(house.app.for_tenant(BOLT), request)
        assert list_files_with(tmp_path, *canaries) == []
        gone = {(company, person.key), (company, person.name.casefold())}
        assert await everybody(house) == {k: v for k, v in before.items() if k not in gone}
        assert len(await house.store().touches.list_profiles()) == 1

        crm = Crm(house, ACME)
        for model in ("res.partner", "crm.lead"):
            there = json.dumps(await crm.records(model, archived=True)).lower()
            assert not [each for each in canaries if each.lower() in there]
        archived = await crm.records(archived=True)
        assert len(archived) - len(await crm.records()) == 1

        again = await erase_person(tenant, request)
        assert (again.contacts, again.tables, again.crm.archived) == (0, {}, [])

        await forget_pages(house)
        pages = house.store().pages  # and the site still has the person's own page
        await pages.save_pages("own.test", list_own_pages(person, house.app.clock.now()))
        assert len(await pages.list_pages("own.test")) == 1
        clock.proceed += timedelta(days=400)  # every paid answer has expired
        heard.clear()
        await house.night(again=True)
        assert any(b"openai" in each or b"model" in each for each in heard)
        assert not [each for each in canaries for told in heard if each.lower().encode() in told]
        (tmp_path / "people.csv").write_text(f"url,name\n{PROFILE},{person.name}\n")
        assert (await read_profiles(tenant, "people.csv")).profiles == ()
        assert list_places(await all_texts(house), *canaries) == []
        assert not gone & (await everybody(house)).keys()
        known = [str(each) for each in (await everybody(house)).values()]
        assert not [each for each in known if ERASED in each or ERASED_EMAIL in each]
        assert list_files_with(tmp_path, *canaries) == []
        kinds = [entry.kind for entry in await house.store().ledger.list_entries(limit=100_000)]
        assert kinds.count("ERASED") == 2
    assert not [each for each in canaries if each.lower() in caplog.text.lower()]


async def test_an_erasure_that_a_crm_held_up_goes_on_where_it_was(here):
    async with here(companies=4, more=KEEPS_TEXTS) as house:
        await house.night()
        company, person = await choose_person(house)
        tenant, request = house.app.for_tenant(ACME), ErasureRequest(email=person.email)
        house.box.faults.set_value("odoo.fault.unavailable", 1.0)
        with pytest.raises(TransientError):
            await erase_person(tenant, request)
        record = await house.store().accounts.find_company_record(company)
        assert person.email in [contact.email for contact in record.contacts]
        house.box.faults.set_value("odoo.fault.unavailable", 0)
        await house.night(steps=(Step.EXPORT,))  # meanwhile nothing is exported of the person
        done = await erase_person(tenant, request)
        assert (done.contacts, len(done.crm.archived)) == (1, 1)
        assert list_places(await all_texts(house), person.email, person.name) == []


async def test_a_suppressed_person_is_not_exported_even_while_it_is_still_stored(here):
    async with here(companies=4, more=KEEPS_TEXTS) as house:
        await house.night(steps=[step for step in Step if step is not Step.EXPORT])
        company, person = await choose_person(house)
        marks = Person(emails=(person.email,), names=(person.name,))
        await house.store().accounts.suppress_person(
            marks, [company], new_key=b"k" * 32, now=house.app.clock.now()
        )
        await house.night(steps=(Step.EXPORT,))
        there = json.dumps(await Crm(house, ACME).records(archived=True)).lower()
        assert company.lower() in there
        assert person.email not in there
        assert person.name.lower() not in there


async def test_what_a_person_changed_in_the_crm_is_left_and_told(here):
    async with here(companies=4, more=KEEPS_TEXTS) as house:
        await house.night()
        _, person = await choose_person(house)
        crm = Crm(house, ACME)
        [own] = [each for each in (await crm.records()).values() if each["email"] == person.email]
        note = f"called {person.email}, wants an offer"
        await crm.ask("res.partner", "write", ids=[own["id"]], vals={"comment": note})
        done = await erase_person(house.app.for_tenant(ACME), ErasureRequest(email=person.email))
        assert list(done.crm.left.values()) == ["a person has changed comment since"]
        assert done.problems
        after = (await crm.records())[next(iter(done.crm.left))]
        assert (after["comment"], after["email"], after["active"]) == (note, False, True)


async def test_touches_in_a_file_are_erased_there(here, tmp_path):
    async with here(companies=1, more='touches.state = "file"\n') as house:
        tenant = house.app.for_tenant(ACME)
        service = build_touch_service(tenant, report=lambda _: None)
        await service.store.save_profiles(
            [Profile(url=PROFILE, name="One Person"), Profile(url="https://in.test/x", name="Else")]
        )
        await service.generate_weekly_plan(None)
        files = [*tmp_path.glob("schedule_state*.json")]
        assert len(files) == 2
        assert all("one-person" in file.read_text() for file in files)
        done = await erase_person(tenant, ErasureRequest(profiles=(PROFILE,)))
        assert done.tables["touch_profiles"].deleted == 1
        for file in files:
            assert "one-person" not in file.read_text()
            assert "One Person" not in file.read_text()
        assert [each.name for each in await service.store.list_profiles()] == ["Else"]


async def test_a_person_whom_only_a_vendor_knows_is_not_brought_back_by_it(here):
    heard, clock = [], Days()
    async with (
        listening_internet(heard, RETICENT) as box,
        here(companies=20, troubles=True, clock=clock, more=KEEPS_TEXTS, box=box) as house,
    ):
        await house.night()
        people = await everybody(house)
        addresses = Counter(company for (company, _), each in people.items() if each.email)
        revealed = [
            (key, each)
            for key, each in people.items()
            if each.source == "lusha" and each.email and addresses[key[0]] == 1
        ]
        (company, _), person = sorted(revealed)[0]
        assert any(person.email.encode() in told for told in heard)  # its address was verified
        await erase_person(house.app.for_tenant(ACME), ErasureRequest(email=person.email))
        await forget_pages(house)
        clock.proceed += timedelta(days=400)
        heard.clear()
        await house.night(again=True)
        assert list_places(await all_texts(house), person.email, person.name) == []
        assert not [told for told in heard if person.email.encode() in told]
        record = await house.store().accounts.find_company_record(company)
        assert person.key not in [contact.key for contact in record.contacts]


class FailsOnce:
    """A backend that fails at one of its writes to a table."""

    def __init__(self, real, at):
        self._real, self.left = real, at

    def __getattr__(self, name):
        return getattr(self._real, name)

    def for_tenant(self, tenant):
        return FailsOnceDatabase(self, self._real.for_tenant(tenant))


class FailsOnceDatabase:
    def __init__(self, backend, real):
        self._backend, self._real = backend, real

    async def write(self, work):
        self._backend.left -= 1
        if self._backend.left == 0:
            raise TransientError("the disk is full")
        return await self._real.write(work)


async def test_wherever_an_erasure_stops_the_next_one_completes_it(here):
    async with here(companies=4, more=KEEPS_TEXTS) as house:
        await house.night()
        _, person = await choose_person(house)
        request = ErasureRequest(email=person.email, profiles=(PROFILE,))
        await plant(house, person, PROFILE)
        stops = 0
        while True:
            stops += 1
            faulty = FailsOnce(house.app.backend, stops)
            tenant = replace(house.app, backend=faulty).for_tenant(ACME)
            try:
                await erase_person(tenant, request)
            except TransientError:
                continue
            break
        assert stops > 20
        assert list_places(await all_texts(house), person.email, person.name) == []


async def test_a_name_is_erased_in_any_script_and_spelling(anywhere):
    spellings = {
        "Hans Weiß": "HANS WEISS",
        "İbrahim Yılmaz": "İbrahim Yılmaz",
        "José Díaz": "Jose\u0301 Di\u0301az",
        "王小明": "王小明先生",
        "Suparman": "Suparman",
    }
    async with anywhere(companies=1) as house:
        await house.night()
        [record, *_] = await house.records(ACME)
        store, tenant, now = house.store(), house.app.for_tenant(ACME), house.app.clock.now()
        for name, spelling in spellings.items():
            answer = CachedAnswer(
                key=name[:1], connector="x", answer=[spelling], cost={}, at=now, expires_at=now
            )
            await store.answers.save_answers([answer])
        for name in spellings:
            request = ErasureRequest(name=name, company=record.company.id)
            done = await erase_person(tenant, request)
            assert any("one word" in each for each in done.problems) is (name == "Suparman")
        found = await store.answers.find_answers([name[:1] for name in spellings])
        told = {key: each.answer for key, each in found.items()}
        assert told == {
            "H": [ERASED],
            "İ": [ERASED],
            "J": [ERASED],
            "王": [f"{ERASED}先生"],
            "S": ["Suparman"],
        }
