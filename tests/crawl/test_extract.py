import asyncio
from datetime import timedelta
from itertools import islice

import pytest

from kit.reading_pages import page
from stoker.accounts.facts import FactField, Method
from stoker.base.clock import SystemClock
from stoker.crawl import extract
from stoker.crawl.extract import find_text_facts
from stoker.crawl.model import Excerpt, VisitOutcome
from stoker.crawl.service import Crawler
from stoker.http.client import HttpClient
from stoker.rate_limits.host_delays import LocalHostPacer
from stoker.sandbox.server import Sandbox
from stoker.sandbox.sites.layout import build_layout

HOME = """<html><head><title>Acme | Anvils</title>
<script type="application/ld+json">{"@type":"Organization","name":"Acme",
"numberOfEmployees":"80"}</script></head>
<body><p>Making anvils since 1974. We are a team of 75 and served 900 people last year.</p>
<p>Write to hello@acme.test or call +65 6123 4567.</p>
<footer>ACME PTE. LTD. · UEN 197401143C · 1 Anvil Road #02-03, Singapore 049315</footer></body>"""
TEAM = """<h2>People</h2><div><h3>Wile Coyote</h3><p>Chief Executive Officer</p></div>
<div>Road Runner – Head of Sales</div><div>Our Services</div><p>Manager tools for you</p>"""


def extract_facts(pages, **more):
    return extract.extract_facts([page.facts for page in pages], **more)


def values(extracted, field):
    return [each.value for each in extracted.facts if each.field is field]


def test_what_a_page_says_is_found_with_its_source_means_and_words():
    extracted = extract_facts([page(HOME)])
    assert extracted.find_best(FactField.NAME).value == "Acme"
    assert values(extracted, FactField.LEGAL_NAME) == ["ACME PTE. LTD."]
    assert values(extracted, FactField.UEN) == ["197401143C"]
    assert values(extracted, FactField.POSTAL_CODE) == ["049315"]
    assert values(extracted, FactField.ADDRESS) == ["1 Anvil Road #02-03, Singapore 049315"]
    assert values(extracted, FactField.FOUNDED) == ["1974"]
    assert values(extracted, FactField.EMAIL) == ["hello@acme.test"]
    assert values(extracted, FactField.PHONE) == ["+6561234567"]
    assert all(each.source == "http://acme.test/" and each.evidence for each in extracted.facts)


def test_contradictions_stay_and_the_surest_word_is_chosen():
    extracted = extract_facts([page(HOME)])
    assert set(values(extracted, FactField.EMPLOYEES)) == {"80", "75", "900"}
    assert extracted.find_best(FactField.EMPLOYEES).value == "80"
    assert extracted.find_best(FactField.EMPLOYEES).method is Method.JSON_LD


def test_people_are_found_with_their_roles():
    extracted = extract_facts([page(TEAM, url="http://acme.test/team", kind="team")])
    assert values(extracted, FactField.PERSON) == [
        "Wile Coyote | Chief Executive Officer",
        "Road Runner | Head of Sales",
    ]


def test_people_are_not_looked_for_where_customers_are():
    extracted = extract_facts([page(TEAM, kind="customers")])
    assert values(extracted, FactField.PERSON) == []


def test_another_site_is_believed_less():
    said = "ACME PTE. LTD. (UEN 197401143C), hello@acme.test"
    own = extract_facts([page(f"<p>{said}</p>")])
    told = extract_facts([], excerpts=[Excerpt(url="http://news.test/", text=said)])
    for field in (FactField.UEN, FactField.EMAIL, FactField.LEGAL_NAME):
        assert told.find_best(field).value == own.find_best(field).value
        assert told.find_best(field).confidence < own.find_best(field).confidence


@pytest.mark.parametrize("title", ["", "Home", "Welcome", "x" * 500])
def test_a_title_that_names_nobody_is_no_name(title):
    assert values(extract_facts([page(f"<title>{title}</title>")]), FactField.NAME) == []


async def read_companies(count):
    """Return make-believe companies whose sites could be read, and what was made of them."""
    agent, clock = "Stoker/1 (test@stoker.test)", SystemClock()
    async with Sandbox(seed=3, companies=100) as box:
        http = HttpClient(user_agent=agent, sandbox=box.address)
        crawler = Crawler(
            http,
            pacer=LocalHostPacer(clock=clock),
            clock=clock,
            user_agent=agent,
            gap=timedelta(milliseconds=1),
        )
        everyone = (box.world.get_company(nth) for nth in range(100))
        quick = (each for each in everyone if not build_layout(box.world, each).crawl_delay)
        companies = list(islice(quick, count))
        visits = await asyncio.gather(*(crawler.visit(each.domain) for each in companies))
        await http.close()
    return [
        (company, extract_facts(visit.pages))
        for company, visit in zip(companies, visits, strict=True)
        if visit.outcome is VisitOutcome.READ
    ]


async def test_what_it_says_of_make_believe_companies_is_nearly_complete_and_never_wrong():
    read = await read_companies(20)
    right = wrong = missing = 0
    for company, extracted in read:
        truth = {
            FactField.NAME: company.brand,
            FactField.LEGAL_NAME: company.name,
            FactField.UEN: company.uen,
            FactField.PHONE: company.phone,
            FactField.POSTAL_CODE: company.postal_code,
            FactField.EMPLOYEES: str(company.employees),
            FactField.FOUNDED: str(company.incorporated.year),
        }
        for field, value in truth.items():
            best = extracted.find_best(field)
            right += best is not None and best.value == value
            wrong += best is not None and best.value != value
            missing += best is None
        people = {f"{each.name} | {each.title}" for each in company.people}
        people |= {f"{each.name} | {each.title} | {each.email}" for each in company.people}
        people |= {f"{each.name} | {each.email}" for each in company.people}
        wrong += len(set(values(extracted, FactField.PERSON)) - people)
    print(f"plain extraction: {len(read)} companies, {right} right, {wrong} wrong, {missing} none")
    assert len(read) >= 10
    assert wrong == 0
    assert right >= 9 * missing


@pytest.mark.parametrize(
    "piece",
    [
        "A ",
        "Aa ",
        "9",
        "9 ",
        "9,",
        "A.",
        "((",
        "S ",
        "since ",
        "a-",
        "Pte",
        "\n",
        "A B | ",
        "1 to ",
    ],
)
def test_no_repeated_piece_keeps_a_pattern_going(piece):
    text = piece * (100_000 // len(piece))
    for each in find_text_facts(text, url="http://acme.test/", kind="team"):
        assert len(each.value) <= 1_000
