"""Whose postings they are: by domain, else by name, and nobody's where two could be meant."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.accounts.model import Company, CompanyId
from stoker.base.types import Job
from stoker.discovery.matching import EmployerIndex, build_hiring_signal
from stoker.discovery.sources import parse_source
from stoker.heat.model import SignalKind

NOW = datetime(2026, 11, 10, tzinfo=UTC)
ACME = Company(id=CompanyId("1"), name="ACME ROBOTICS PTE. LTD.", website="https://www.acme.com.sg")
UMBRELLA = Company(id=CompanyId("2"), name="Umbrella Private Limited")
OTHER_ACME = Company(id=CompanyId("3"), name="Acme Robotics (Singapore) LLP")


def job(url="https://jobs.lever.co/x/1", company="", **more):
    return Job.create(source="lever", url=url, title="Cook", company=company, **more)


def account(source, posting, companies):
    employers = EmployerIndex()
    employers.add_posting(parse_source(source), posting)
    employers.match_companies(companies)
    return employers.find_account(parse_source(source), posting)


@pytest.mark.parametrize(
    ("source", "posting", "companies", "whose"),
    [
        ("lever:x || acme.com.sg", job(), [ACME, UMBRELLA], "1"),
        ("lever:x | Acme Robotics", job(), [ACME, UMBRELLA], "1"),
        ("lever:acme-robotics", job(company="acme-robotics"), [ACME, UMBRELLA], "1"),
        ("feed:https://f.com/", job("https://careers.acme.com.sg/9"), [ACME, UMBRELLA], "1"),
        ("feed:https://f.com/", job(company="Jobs at Umbrella"), [ACME, UMBRELLA], "2"),
        ("feed:https://f.com/", job(company="Umbrella Careers"), [ACME, UMBRELLA], "2"),
        # Two of one name are nobody; a domain tells them apart, and outweighs a name.
        ("lever:x | Acme Robotics", job(), [ACME, OTHER_ACME], None),
        ("lever:x | Acme Robotics | acme.com.sg", job(), [ACME, OTHER_ACME], "1"),
        ("lever:x | Umbrella | acme.com.sg", job(), [ACME, UMBRELLA], "1"),
        # What is listed at a board is not the board's, and a name in part is no name.
        ("lever:x", job(), [Company(id=CompanyId("9"), name="Lever", website="lever.co")], None),
        ("lever:x | Acme", job(), [ACME], None),
        ("lever:x", job(), [ACME, UMBRELLA], None),
        ("feed:https://f.com/", job("https://notacme.com.sg/1"), [ACME], None),
        (
            "lever:x | Gone",
            job(),
            [Company(id=CompanyId("8"), name="Gone", live=False)],
            None,
        ),
    ],
)
def test_a_posting_is_an_accounts_for_sure_or_nobodys(source, posting, companies, whose):
    assert account(source, posting, companies) == whose
    assert account(source, posting, companies[::-1]) == whose


names = st.sampled_from(["Acme", "ACME Pte Ltd", "Umbrella", "", "Pte Ltd", "日本"])
sites = st.sampled_from(["", "acme.com", "https://www.acme.com", "umbrella.sg", "nonsense"])
companies = st.lists(
    st.builds(
        Company,
        id=st.integers(0, 9).map(lambda number: CompanyId(str(number))),
        name=names,
        website=sites,
        live=st.booleans(),
    ),
    max_size=5,
    unique_by=lambda company: company.id,
)


@given(names | st.text(max_size=20), sites | st.text(max_size=20), companies, st.randoms())
def test_the_order_in_which_accounts_are_met_makes_no_difference(name, site, found, random):
    posting = Job.create(source="file", url=f"https://{site}/1", title="Cook", company=name)
    first = account("file:x.csv", posting, found)
    random.shuffle(found)
    assert account("file:x.csv", posting, found) == first
    assert first is None or first in {each.id for each in found if each.live}


def test_who_was_not_wanted_takes_no_room():
    employers = EmployerIndex()
    employers.add_posting(parse_source("lever:x | Acme"), job())
    employers.match_companies([UMBRELLA] * 1000)
    assert len(employers) == 1


def signal(posting, account="1"):
    return build_hiring_signal(
        posting, CompanyId(account), first_seen_at=NOW, strength=0.5, source="lever:x"
    )


def test_a_posting_is_one_signal_however_often_it_is_seen():
    assert signal(job()) == signal(job())
    assert signal(job()).kind is SignalKind.POSTING
    assert signal(job()).id != signal(job("https://jobs.lever.co/x/2")).id
    assert signal(job()).id != signal(job(), account="2").id


def test_it_happened_when_it_was_posted_or_first_seen_and_never_later():
    posted = NOW - timedelta(days=3)
    assert signal(job(posted_at=posted)).at == posted
    assert signal(job(posted_at=NOW + timedelta(days=3))).at == NOW
    assert signal(job()).at == NOW
