"""A person is recognized in any text; afterwards hashes alone keep it out, and it alone."""

import re
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.accounts.erasure import (
    ERASED,
    ERASED_EMAIL,
    Person,
    Suppressions,
    is_named_after,
    normalize_name,
)
from stoker.accounts.facts import Fact, FactField, Method
from stoker.accounts.model import (
    Bucket,
    Company,
    CompanyId,
    CompanyRecord,
    Contact,
    LeadScore,
    SiteOwner,
    SiteVerdict,
)
from stoker.backends.sqlite import MemoryBackend
from stoker.base.errors import ConfigError
from stoker.base.jsontools import compact_json
from stoker.base.types import Depth, TenantId
from stoker.crawl.model import PageState
from stoker.enrichment.model import WorkItem, WorkState
from stoker.maintenance.erasure import ErasureRequest
from stoker.vendors.model import CachedAnswer

NOW = datetime(2026, 11, 16, 8, tzinfo=UTC)
JANE = Person(
    emails=("jane.doe@acme.test",),
    names=("Jane Doe",),
    phones=("+6561234567",),
    profiles=("https://www.in.test/in/jane-d",),
)
PROFILE = JANE.profiles[0]
HERE, ELSEWHERE = CompanyId("200000001A"), CompanyId("200000002A")


def suppressions(person=JANE, *companies):
    empty = Suppressions(key=b"k" * 32)
    marks = empty.list_digests(person, companies or (HERE,))
    return Suppressions(empty.key, frozenset(marks), frozenset(companies or (HERE,)))


@pytest.mark.parametrize(
    "text",
    [
        "write to jane.doe@acme.test.",
        "mailto:JANE.DOE@ACME.TEST?subject=x",
        "mailto:jane.doe%40acme.test",
        "Jane Doe, CEO",
        "https://acme.test/team/jane-doe.html",
        "jane_doe",
        "JANE  DOE",
        "call +65 6123 4567 now",
        "https://www.in.test/in/jane-d/",
        "http://in.test/in/Jane-D?x=1",
        "see in.test/in/jane-d.",
        "mailto:%20jane.doe@acme.test",
    ],
)
def test_a_person_is_taken_out_however_it_is_written(text):
    assert JANE.redact(text) != text
    assert JANE.redact(JANE.redact(text)) == JANE.redact(text)


@pytest.mark.parametrize(
    "text",
    [
        "mary.jane.doe@acme.test",
        "jane.doe@acme.testing",
        "Jane Doerr",
        "Mary-Jane Smith and John Doe",
        "+65 6123 45678",
        "jane.doe@acme.test.sg",
        "jane.doe@acme.test-house.sg",
        "https://in.test/in/jane-dee",
        "https://in.test/in/jane-d.tan",
        "https://in.test/in/jane-d/bob",
        "https://robin.test/in/jane-d",
        "https://x.in.test.sg/in/jane-d",
    ],
)
def test_another_person_is_not(text):
    assert JANE.redact(text) == text


def test_a_name_is_left_where_only_marks_of_its_own_count():
    assert JANE.redact("Jane Doe", with_names=False) == "Jane Doe"


@given(st.text(max_size=60), st.text(max_size=60))
def test_whatever_stands_around_it_hashes_find_what_the_person_would(before, after):
    text = f"{before} jane.doe@acme.test {after}"
    told = suppressions().redact(text, HERE)
    assert "jane.doe@acme.test" not in told.casefold().replace("%40", "@")
    assert ERASED_EMAIL in told


@pytest.mark.parametrize(
    ("text", "company", "told"),
    [
        ("ask Jane-Doe, our CEO", HERE, f"ask {ERASED}, our CEO"),
        ("ask Jane Doe, our CEO", ELSEWHERE, "ask Jane Doe, our CEO"),
        ("Jane Doe Smith and Jane", HERE, f"{ERASED} Smith and Jane"),
        ("see https://www.in.test/in/jane-d/", ELSEWHERE, f"see {ERASED}"),
        ("(see https://in.test/in/jane-d).", ELSEWHERE, f"(see {ERASED})."),
        ("https://in.test/in/jane-d/?x=1", ELSEWHERE, ERASED),
        ("https://in.test/in/jane-d/bob", ELSEWHERE, "https://in.test/in/jane-d/bob"),
        ("mailto:%20jane.doe@acme.test", ELSEWHERE, f"mailto:%20{ERASED_EMAIL}"),
        ("jane.doe@acme.test.sg", ELSEWHERE, "jane.doe@acme.test.sg"),
        ("to: jane.doe@acme.test.", ELSEWHERE, f"to: {ERASED_EMAIL}."),
        ("john.doe@acme.test", HERE, "john.doe@acme.test"),
    ],
)
def test_hashes_find_addresses_everywhere_and_names_at_their_company(text, company, told):
    assert suppressions().redact(text, company) == told


def test_no_hash_reveals_what_it_is_of_and_every_tenant_has_its_own():
    marks = suppressions().digests
    assert not [each for each in marks if "jane" in each or "acme" in each]
    other = Suppressions(key=b"o" * 32).list_digests(JANE, [HERE])
    assert not marks & other.keys()
    assert not Suppressions()
    assert Suppressions().redact("jane.doe@acme.test") == "jane.doe@acme.test"


def fact(field, value, evidence=""):
    return Fact(
        field=field,
        value=value,
        source="http://acme.test/",
        method=Method.TEXT,
        confidence=0.5,
        evidence=evidence,
    )


def record(company=HERE):
    score = LeadScore(
        value=0.5, bucket=Bucket.LOW, features={}, feature_hash="x", rationale="Jane Doe answers"
    )
    return CompanyRecord(
        company=Company(id=company, name="Acme"),
        facts=(
            fact(FactField.EMAIL, "jane.doe@acme.test"),
            fact(FactField.PERSON, "Jane Doe | CEO"),
            fact(FactField.PERSON, "John Roe | CTO", "John Roe works with Jane Doe"),
            fact(FactField.ABOUT, "Run by Jane Doe since 2001"),
        ),
        contacts=(
            Contact(email="jane.doe@acme.test", source="x", confidence=1.0),
            Contact(name="Jane Doe", source="x", confidence=1.0),
            Contact(name="John Roe", email="john@acme.test", source="x", confidence=1.0),
        ),
        score=score,
        looked_at=NOW,
    )


def test_a_record_keeps_everything_but_the_person():
    after = suppressions().filter_record(record())
    assert [contact.name for contact in after.contacts] == ["John Roe"]
    assert [each.value for each in after.facts] == ["John Roe | CTO", f"Run by {ERASED} since 2001"]
    assert after.facts[0].evidence == f"John Roe works with {ERASED}"
    assert after.score.rationale == f"{ERASED} answers"
    assert suppressions().filter_record(after) == after


async def test_no_verb_of_a_store_lets_a_suppressed_person_in():
    store = MemoryBackend().tenant(TenantId("acme"))
    await store.accounts.suppress_person(JANE, [HERE], new_key=b"k" * 32, now=NOW)
    await store.accounts.suppress_person(JANE, [HERE], new_key=b"x" * 32, now=NOW)  # once is enough
    assert (await store.accounts.read_suppressions()).key == b"k" * 32
    for company in (HERE, ELSEWHERE):
        await store.accounts.upsert_companies([Company(id=company, name="Acme")], now=NOW)
        item = WorkItem(company=company, rank=0, depth=Depth.DEEP, reason="x")
        await store.work_items.insert_items(f"run {company}", [item])
        done = WorkItem(
            company=company, rank=0, depth=Depth.DEEP, state=WorkState.DONE, ended_at=NOW
        )
        assert await store.work_items.finish_item(f"run {company}", done, record(company))
    here, elsewhere = [
        await store.accounts.find_company_record(company) for company in (HERE, ELSEWHERE)
    ]
    assert [contact.name for contact in here.contacts] == ["John Roe"]
    assert [contact.name for contact in elsewhere.contacts] == ["Jane Doe", "John Roe"]
    answer = {"people": [{"name": "Jane Doe", "email": "Jane.Doe@acme.test"}]}
    for key, account in (("a", HERE), ("b", "")):
        kept = CachedAnswer(
            key=key, connector="x", answer=answer, cost={}, at=NOW, expires_at=NOW, account=account
        )
        await store.answers.save_answers([kept])
    found = await store.answers.find_answers(["a", "b"])
    assert found["a"].answer == {"people": [{"name": ERASED, "email": ERASED_EMAIL}]}
    assert found["b"].answer == {"people": [{"name": "Jane Doe", "email": ERASED_EMAIL}]}


@pytest.mark.parametrize(
    ("email", "name", "same"),
    [
        ("jane.doe2@acme.test", "Jane Doe", True),
        ("doe-jane@acme.test", "Jane Doe", True),
        ("shuhui.menon@acme.test", "Shu Hui Menon", True),
        ("jdoe@acme.test", "Jane Doe", False),
        ("jane@acme.test", "Jane", False),
        ("info@acme.test", "Jane Doe", False),
        ("", "Jane Doe", False),
    ],
)
def test_an_address_that_spells_a_name_is_that_persons(email, name, same):
    assert is_named_after(email, name) is same


def test_names_are_compared_by_their_words():
    assert normalize_name("  JANE-Anne\tO'Doe ") == "jane anne o doe"


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"name": "Jane Doe"},
        {"company": HERE},
        {"name": "!", "company": HERE},
        {"email": "@"},
        {"email": "jane"},
        {"email": "@acme.test"},
        *(
            {"profiles": (PROFILE, url)}
            for url in (
                "",
                "https://",
                "https://in.test",
                "https://in.test//",
                "https://in.test/?id=1",
                "https://www.linkedin.com/in",
                "https://www.linkedin.com/in/",
                "https://www.linkedin.com/in/?x=1",
                "https://www.linkedin.com/in/%20",
                "https://www.linkedin.com/in/%2F",
                "https://facebook.test/profile.php",
                "jane",
            )
        ),
    ],
)
def test_whom_to_erase_must_be_clear(wrong):
    with pytest.raises(ConfigError):
        ErasureRequest(**wrong)
    with pytest.raises(ConfigError):
        Person()


@pytest.mark.parametrize(
    "empty", [{"phones": ("n/a",)}, {"phones": ("12",)}, {"emails": ("@",)}, {"names": ("!",)}]
)
def test_a_mark_that_is_nobodys_takes_nothing_out(empty):
    text = "call 12 or n/a, write @ once!"
    assert Person(**{"profiles": (PROFILE,), **empty}).redact(text) == text


def test_a_profile_that_is_everybodys_is_refused():
    with pytest.raises(ConfigError, match="ends in the person's name"):
        Person(profiles=("https://",)).redact("anything")


def test_pages_of_a_profile_are_the_persons_where_the_site_sorts_by_person():
    person = Person(profiles=("https://linkedin.com/in/jos%C3%A9-d",))
    for url in ("https://sg.linkedin.com/in/jos%C3%A9-d/details", "linkedin.com/in/José-D/"):
        assert "os" not in person.redact(url)


def test_where_a_link_to_a_profile_stood_does_not_matter():
    person = Person(profiles=("https://www.linkedin.com/in/jane-d/?utm_source=share",))
    assert person.redact("at linkedin.com/in/jane-d now") == f"at {ERASED} now"
    assert suppressions(person).has_profile("https://linkedin.com/in/jane-d/?other")


def test_a_profile_is_kept_out_however_its_letters_are_written():
    kept_out = suppressions(Person(profiles=("https://in.test/in/José#about",)))
    assert kept_out.has_profile("https://www.in.test/in/jos%C3%A9/")
    assert kept_out.has_profile("http://in.test/in/José")
    assert not kept_out.has_profile("http://in.test/in/Jose")


SPELLINGS = [
    ("Hans Weiß", "Hans Weiß"),
    ("Hans Weiß", "HANS WEISS"),
    ("Hans Weiss", "Hans Weiß"),
    ("İbrahim Yılmaz", "İbrahim Yılmaz"),
    ("İbrahim Yılmaz", "ibrahim-yilmaz"),
    ("Jos\u00e9 D\u00edaz", "Jose\u0301 Di\u0301az"),
    ("Jose\u0301 Di\u0301az", "JOS\u00c9 D\u00cdAZ"),
    ("José Díaz", "jose_diaz"),
    ("王小明", "王小明"),
    ("王小明", "王小明先生"),
    ("王明", "王明"),
    ("김철수", "김철수"),
    ("Иван Петров", "ИВАН ПЕТРОВ"),
]


@pytest.mark.parametrize(("name", "text"), SPELLINGS)
def test_a_name_is_found_however_its_letters_are_written(name, text):
    person = Person(names=(name,))
    for wrapped in (text, f"by {text}, 2001"):
        told = person.redact(wrapped)
        assert told == suppressions(person).redact(wrapped, HERE)
        assert told == wrapped.replace(text.removesuffix("先生"), ERASED)
    assert person.is_contact(
        Contact(name=text.removesuffix("先生"), source="x", confidence=1.0), at_company=True
    )


@pytest.mark.parametrize(("name", "text"), SPELLINGS)
def test_what_a_database_looks_for_is_in_every_text_with_the_name(name, text):
    parts = Person(names=(name,)).build_search(with_names=True).name_parts
    for stored in (text, compact_json([text])):
        lowered = re.sub("[A-Z]", lambda found: found[0].lower(), stored)  # as SQLite does
        assert any(part in lowered for part in parts)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("王明", "王明华"),
        ("王小明", "王小华"),
        ("김철수", "김철수미"),
        ("Rajesh", "Rajesh Kumar"),
        ("José Díaz", "José Díazar"),
    ],
)
def test_another_name_is_left(name, text):
    person = Person(names=(name,))
    assert person.redact(text) == text
    assert suppressions(person).redact(text, HERE) == text


def test_a_name_of_one_word_is_a_contacts_and_no_word_of_a_text():
    kept_out = suppressions(Person(names=("Rajesh",)))
    people = [Contact(name=name, source="x", confidence=1.0) for name in ("RAJESH", "Rajesh Kumar")]
    assert kept_out.filter_contacts(people, HERE) == (people[1],)
    facts = [fact(FactField.PERSON, name) for name in ("Rajesh | CEO", "Rajesh Kumar | CFO")]
    assert [each.value for each in kept_out.filter_facts(facts, HERE)] == ["Rajesh Kumar | CFO"]


@pytest.mark.parametrize(
    ("contact", "is_jane"),
    [
        ({"name": "Dr Jane Doe"}, True),
        ({"name": "Jane Doe, CPA"}, True),
        ({"name": "Ms. Jane Doe (Finance)"}, True),
        ({"name": "Doe Jane"}, True),
        ({"name": "DOE, Jane"}, True),
        ({"email": "doe.jane@other.test"}, True),
        ({"email": "janedoe7@other.test"}, True),
        ({"name": "Jane Doe Smith"}, False),
        ({"name": "Mary Jane Doe"}, False),
        ({"name": "John Doe", "email": "jane.doe@other.test"}, False),
        ({"email": "j.doe@other.test"}, False),
        ({"phone": "+65 6123 0000"}, False),
    ],
)
def test_a_contact_is_kept_out_under_whatever_its_name_is_written_with(contact, is_jane):
    given = Contact(**contact, source="x", confidence=1.0)
    assert (suppressions().filter_contacts([given], HERE) == ()) is is_jane
    assert suppressions().filter_contacts([given], ELSEWHERE) == (given,)
    if given.name:
        assert Person(names=JANE.names).is_contact(given, at_company=True) is is_jane


@pytest.mark.parametrize("name", ["Dr Jane Doe", "Jane Doe, CPA", "Doe, Jane"])
def test_a_name_with_a_title_is_found_without_it(name):
    person = Person(names=(name,))
    for text in ("Jane Doe leads", "/team/jane-doe"):
        assert "ane" not in person.redact(text)
        assert "ane" not in suppressions(person).redact(text, HERE)


def test_a_name_is_found_in_a_link_with_escaped_letters():
    person = Person(names=("José Díaz", "王小明"))
    for name in ("jos%C3%A9-d%C3%ADaz", "%E7%8E%8B%E5%B0%8F%E6%98%8E"):
        url = f"https://acme.test/team%20of/{name}?x=100%"
        told = f"https://acme.test/team%20of/{ERASED}?x=100%"
        assert person.redact(url) == suppressions(person).redact(url, HERE) == told


def test_what_proves_a_website_names_no_erased_person():
    site = SiteVerdict(
        host="acme.test", owner=SiteOwner.CONFIRMED, source="https://acme.test/jane-doe"
    )
    after = suppressions().filter_record(replace(record(), site=site))
    assert after.site.source == f"https://acme.test/{ERASED}"


async def test_pages_that_are_called_after_an_erased_person_are_not_stored():
    store = MemoryBackend().tenant(TenantId("acme"))
    urls = ["https://acme.test/team/bob", "https://acme.test/team/jane-doe"]
    pages = [PageState(url=url, status=200, seen_at=NOW, changed_at=NOW) for url in urls]
    await store.pages.save_pages("before.test", pages)
    await store.accounts.suppress_person(JANE, [HERE], new_key=b"k" * 32, now=NOW)
    for site, company in (("any.test", ""), ("here.test", HERE), ("elsewhere.test", ELSEWHERE)):
        await store.pages.save_pages(site, pages, company=company)
    stored = {
        site: [page.url for page in await store.pages.list_pages(site)]
        for site in ("before.test", "any.test", "here.test", "elsewhere.test")
    }
    assert stored == {
        "before.test": urls,
        "any.test": urls[:1],
        "here.test": urls[:1],
        "elsewhere.test": urls,
    }
