import asyncio
import random
from datetime import timedelta
from itertools import islice

import pytest

from kit.reading_pages import page
from stoker.accounts.facts import Field, How
from stoker.base.clock import SystemClock
from stoker.crawl.crawler import Crawler
from stoker.crawl.extract import plainly_extracted, word_findings
from stoker.crawl.model import Excerpt, Outcome
from stoker.crawl.politeness import OwnHosts
from stoker.http.client import Http
from stoker.sandbox.server import Sandbox
from stoker.sandbox.sites.layout import layout_of

HOME = """<html><head><title>Acme | Anvils</title>
<script type="application/ld+json">{"@type":"Organization","name":"Acme",
"numberOfEmployees":"80"}</script></head>
<body><p>Making anvils since 1974. We are a team of 75 and served 900 people last year.</p>
<p>Write to hello@acme.test or call +65 6123 4567.</p>
<footer>ACME PTE. LTD. · UEN 197401143C · 1 Anvil Road #02-03, Singapore 049315</footer></body>"""
TEAM = """<h2>People</h2><div><h3>Wile Coyote</h3><p>Chief Executive Officer</p></div>
<div>Road Runner – Head of Sales</div><div>Our Services</div><p>Manager tools for you</p>"""


def values(extracted, field):
    return [each.value for each in extracted.findings if each.field is field]


def test_what_a_page_says_is_found_with_its_source_means_and_words():
    extracted = plainly_extracted([page(HOME)])
    assert extracted.best(Field.NAME).value == "Acme"
    assert values(extracted, Field.LEGAL_NAME) == ["ACME PTE. LTD."]
    assert values(extracted, Field.UEN) == ["197401143C"]
    assert values(extracted, Field.POSTAL_CODE) == ["049315"]
    assert values(extracted, Field.ADDRESS) == ["1 Anvil Road #02-03, Singapore 049315"]
    assert values(extracted, Field.FOUNDED) == ["1974"]
    assert values(extracted, Field.EMAIL) == ["hello@acme.test"]
    assert values(extracted, Field.PHONE) == ["+6561234567"]
    assert all(each.source == "http://acme.test/" and each.evidence for each in extracted.findings)


def test_contradictions_stay_and_the_surest_word_is_chosen():
    extracted = plainly_extracted([page(HOME)])
    assert set(values(extracted, Field.EMPLOYEES)) == {"80", "75", "900"}
    assert extracted.best(Field.EMPLOYEES).value == "80"
    assert extracted.best(Field.EMPLOYEES).how is How.JSON_LD


def test_people_are_found_with_their_roles():
    extracted = plainly_extracted([page(TEAM, url="http://acme.test/team", kind="team")])
    assert values(extracted, Field.PERSON) == [
        "Wile Coyote | Chief Executive Officer",
        "Road Runner | Head of Sales",
    ]


def test_people_are_not_looked_for_where_customers_are():
    extracted = plainly_extracted([page(TEAM, kind="customers")])
    assert values(extracted, Field.PERSON) == []


def test_another_site_is_believed_less():
    said = "ACME PTE. LTD. (UEN 197401143C), hello@acme.test"
    own = plainly_extracted([page(f"<p>{said}</p>")])
    told = plainly_extracted([], told=[Excerpt(url="http://news.test/", text=said)])
    for field in (Field.UEN, Field.EMAIL, Field.LEGAL_NAME):
        assert told.best(field).value == own.best(field).value
        assert told.best(field).confidence < own.best(field).confidence


@pytest.mark.parametrize("title", ["", "Home", "Welcome", "x" * 500])
def test_a_title_that_names_nobody_is_no_name(title):
    assert values(plainly_extracted([page(f"<title>{title}</title>")]), Field.NAME) == []


def test_the_same_pages_always_say_the_same():
    pages = [page(HOME), page(TEAM, kind="team")]
    assert plainly_extracted(pages) == plainly_extracted(pages)


async def read_companies(count):
    """Return make-believe companies whose sites could be read, and what was made of them."""
    agent, clock = "Stoker/1 (test@stoker.test)", SystemClock()
    async with Sandbox(seed=3, companies=100) as box:
        http = Http(user_agent=agent, sandbox=box.address)
        crawler = Crawler(
            http,
            pacer=OwnHosts(clock=clock),
            clock=clock,
            user_agent=agent,
            gap=timedelta(milliseconds=1),
        )
        everyone = (box.world.company(nth) for nth in range(100))
        quick = (each for each in everyone if not layout_of(box.world, each).crawl_delay)
        companies = list(islice(quick, count))
        visits = await asyncio.gather(*(crawler.visit(each.domain) for each in companies))
        await http.close()
    return [
        (company, plainly_extracted(visit.pages))
        for company, visit in zip(companies, visits, strict=True)
        if visit.outcome is Outcome.READ
    ]


def test_what_it_says_of_make_believe_companies_is_nearly_complete_and_never_wrong():
    read = asyncio.run(read_companies(20))
    right = wrong = missing = 0
    for company, extracted in read:
        truth = {
            Field.NAME: company.brand,
            Field.LEGAL_NAME: company.name,
            Field.UEN: company.uen,
            Field.PHONE: company.phone,
            Field.POSTAL_CODE: company.postal_code,
            Field.EMPLOYEES: str(company.employees),
            Field.FOUNDED: str(company.incorporated.year),
        }
        for field, value in truth.items():
            best = extracted.best(field)
            right += best is not None and best.value == value
            wrong += best is not None and best.value != value
            missing += best is None
        people = {f"{each.name} | {each.title}" for each in company.people}
        wrong += len(set(values(extracted, Field.PERSON)) - people)
    print(f"plain extraction: {len(read)} companies, {right} right, {wrong} wrong, {missing} none")
    assert len(read) >= 10
    assert wrong == 0
    assert right >= 9 * missing


def test_no_bytes_make_it_raise():
    draw = random.Random(5)
    for _ in range(100):
        garbage = bytes(draw.randrange(256) for _ in range(draw.randrange(600)))
        where = draw.randrange(len(HOME))
        plainly_extracted([page(HOME.encode()[:where] + garbage + HOME.encode()[where:])])


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
    for each in word_findings(text, url="http://acme.test/", kind="team"):
        assert len(each.value) <= 1_000
