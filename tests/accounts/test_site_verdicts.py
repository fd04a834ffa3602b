"""Whose a website is: given, confirmed by what was seen, or probable."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from stoker.accounts.contacts import choose_best_contact, list_own_contacts
from stoker.accounts.facts import Fact, FactField, Method
from stoker.accounts.model import (
    Company,
    CompanyId,
    CompanyRecord,
    Contact,
    SiteOwner,
    SiteVerdict,
)
from stoker.accounts.websites import SearchHit, format_site, judge_site

NUMBER, POSTAL, SITE, HOST = "201912345K", "068912", "https://www.acme.sg/", "acme.sg"
COMPANY = Company(id=CompanyId(NUMBER), name="ACME ROBOTICS PTE. LTD.", postal_code=POSTAL)
NEW = CompanyRecord(company=COMPANY)
EARLIER = datetime(2030, 1, 1, tzinfo=UTC)
PROBABLE = SiteVerdict(host=HOST, owner=SiteOwner.PROBABLE)
CONFIRMED = SiteVerdict(
    host=HOST, owner=SiteOwner.CONFIRMED, proof="p", source="https://acme.sg/contact"
)
GIVEN = SiteVerdict(host=HOST, owner=SiteOwner.GIVEN)


def fact(field, value, *, source="https://acme.sg/about"):
    return Fact.build(field, value, source=source, how=Method.TEXT, confidence=0.9)


def judge(before=NEW, *, site=SITE, facts=(), pages=None, hits=(), unchanged=()):
    return judge_site(before, site, facts=facts, pages=pages or {}, hits=hits, unchanged=unchanged)


def listing(text, *, url="https://directory.sg/acme"):
    return SearchHit(url=url, title="Acme Robotics Pte Ltd", text=text)


def looked_up(site, *, website=SITE):
    return CompanyRecord(company=replace(COMPANY, website=website), looked_at=EARLIER, site=site)


@pytest.mark.parametrize(
    ("seen", "owner"),
    [
        ({}, SiteOwner.PROBABLE),
        ({"pages": {SITE: "Acme Robotics. Director: Mallory Quek."}}, SiteOwner.PROBABLE),
        ({"pages": {SITE: f"© Acme Robotics, UEN {NUMBER.lower()}."}}, SiteOwner.CONFIRMED),
        ({"pages": {SITE: f"1 Robinson Road, Singapore {POSTAL}"}}, SiteOwner.CONFIRMED),
        ({"pages": {SITE: f"Order 7{POSTAL}1 and X{NUMBER}"}}, SiteOwner.PROBABLE),
        ({"facts": [fact(FactField.UEN, NUMBER)]}, SiteOwner.CONFIRMED),
        ({"facts": [fact(FactField.POSTAL_CODE, POSTAL)]}, SiteOwner.CONFIRMED),
        ({"facts": [fact(FactField.PHONE, POSTAL)]}, SiteOwner.PROBABLE),
        ({"facts": [fact(FactField.UEN, NUMBER, source="https://x.sg/")]}, SiteOwner.PROBABLE),
        (  # another company's number says more than a shared address
            {
                "facts": [fact(FactField.UEN, "200011111A")],
                "pages": {SITE: f"Singapore {POSTAL}"},
            },
            SiteOwner.PROBABLE,
        ),
        ({"hits": [listing(f"UEN {NUMBER}. Website: acme.sg")]}, SiteOwner.CONFIRMED),
        ({"hits": [listing(f"UEN {NUMBER}. Write to info@acme.sg.")]}, SiteOwner.CONFIRMED),
        ({"hits": [listing("Website: acme.sg")]}, SiteOwner.PROBABLE),
        ({"hits": [listing(f"UEN {NUMBER}. Website: acme.sg.evil.test")]}, SiteOwner.PROBABLE),
        ({"hits": [listing(f"UEN {NUMBER}. Website: not-acme.sg")]}, SiteOwner.PROBABLE),
        (
            {
                "facts": [fact(FactField.PHONE, "+6561234567")],
                "hits": [listing(f"Singapore {POSTAL}, tel. (65) 6123 4567")],
            },
            SiteOwner.CONFIRMED,
        ),
        (
            {
                "facts": [fact(FactField.PHONE, "+6561234567")],
                "hits": [listing(f"Singapore {POSTAL}, tel. (65) 6123 45678")],
            },
            SiteOwner.PROBABLE,
        ),
    ],
)
def test_a_site_found_by_search_is_confirmed_by_register_facts_alone(seen, owner):
    assert judge(**seen).owner is owner


def test_what_stands_elsewhere_counts_for_more_than_what_the_site_shows():
    verdict = judge(
        pages={SITE: f"UEN {NUMBER}"}, hits=[listing(f"UEN {NUMBER}, https://www.acme.sg/")]
    )
    assert verdict.source == "https://directory.sg/acme"
    assert format_site(verdict) == (
        "confirmed: a page elsewhere names the company and this site, https://directory.sg/acme"
    )


@pytest.mark.parametrize(
    ("before", "owner"),
    [
        (CompanyRecord(company=replace(COMPANY, website=SITE)), SiteOwner.GIVEN),
        (looked_up(GIVEN), SiteOwner.GIVEN),
        (looked_up(replace(PROBABLE, host="other.sg")), SiteOwner.GIVEN),  # a person changed it
        (looked_up(None), SiteOwner.PROBABLE),  # an earlier version found it, or it was given
        (looked_up(PROBABLE), SiteOwner.PROBABLE),
        (looked_up(CONFIRMED), SiteOwner.CONFIRMED),
    ],
)
def test_a_site_that_no_lookup_found_was_given(before, owner):
    assert judge(before).owner is owner


PROOF, NEWS = CONFIRMED.source, {"https://acme.sg/news": "New owners."}
BY_PHONE = [fact(FactField.PHONE, "+6561234567", source=PROOF)]


@pytest.mark.parametrize(
    ("seen", "owner"),
    [
        ({}, SiteOwner.CONFIRMED),  # nothing of it was seen
        ({"pages": {PROOF: f"Singapore {POSTAL}"}}, SiteOwner.CONFIRMED),
        ({"pages": {PROOF: "This domain has a new owner."}}, SiteOwner.PROBABLE),
        ({"pages": NEWS, "unchanged": [PROOF]}, SiteOwner.CONFIRMED),
        ({"unchanged": [PROOF, SITE]}, SiteOwner.CONFIRMED),
        ({"unchanged": [SITE]}, SiteOwner.PROBABLE),
        ({"pages": NEWS}, SiteOwner.PROBABLE),
        ({"pages": {SITE: f"UEN {NUMBER}"}}, SiteOwner.CONFIRMED),  # there is another proof
        ({"pages": NEWS, "hits": [listing(f"UEN {NUMBER}, acme.sg")]}, SiteOwner.CONFIRMED),
        # facts of a page that was not seen again prove nothing
        ({"pages": NEWS, "facts": [fact(FactField.UEN, NUMBER, source=PROOF)]}, SiteOwner.PROBABLE),
        (
            {"pages": NEWS, "facts": BY_PHONE, "hits": [listing(f"{NUMBER}, 6123 4567")]},
            SiteOwner.PROBABLE,
        ),
        (
            {
                "pages": NEWS,
                "facts": [fact(FactField.UEN, NUMBER, source=SITE)],
                "unchanged": [SITE],
            },
            SiteOwner.CONFIRMED,
        ),
    ],
)
def test_a_site_stays_confirmed_while_a_page_that_is_seen_proves_it(seen, owner):
    assert judge(looked_up(CONFIRMED), **seen).owner is owner


def test_a_page_that_was_not_seen_again_counts_once_it_is():
    lost = judge(looked_up(CONFIRMED), pages=NEWS)
    assert format_site(lost) == (
        "probable: the page that confirmed it was not seen again, https://acme.sg/contact"
    )
    assert judge(looked_up(lost), pages=NEWS) == lost
    assert judge(looked_up(lost)) == lost
    assert judge(looked_up(lost), unchanged=[PROOF]) == CONFIRMED
    assert judge(looked_up(lost), pages={PROOF: "New owners."}) == PROBABLE


def test_a_page_elsewhere_confirms_until_it_is_found_without_the_proof():
    hit = listing(f"UEN {NUMBER}. Website: acme.sg")
    confirmed = judge(hits=[hit])
    assert judge(looked_up(confirmed), pages=NEWS) == confirmed
    assert judge(looked_up(confirmed), pages=NEWS, hits=[hit]) == confirmed
    elsewhere = replace(hit, text="The website of Acme Robotics was acme.sg.")
    assert judge(looked_up(confirmed), pages=NEWS, hits=[elsewhere]) == PROBABLE
    assert (
        judge(looked_up(replace(PROBABLE, proof="its pages show another")), pages=NEWS) == PROBABLE
    )


def test_a_verdict_is_about_one_site_and_no_other():
    moved = judge(looked_up(CONFIRMED, website=""), site="https://acme-robotics.sg/")
    assert moved == SiteVerdict(host="acme-robotics.sg", owner=SiteOwner.PROBABLE)


def test_pages_of_others_are_probable_unless_they_name_the_company_by_number():
    told = fact(FactField.PERSON, "Mallory Quek|Director", source="https://news.sg/1")
    hit = listing("Acme Robotics is led by Mallory Quek.", url="https://news.sg/1")
    sure = replace(hit, text=f"{hit.text} UEN {NUMBER}")

    assert judge(site="", facts=[told], hits=[hit]) == replace(PROBABLE, host="")
    assert judge(site="", facts=[told], hits=[sure]) is None
    assert judge(site="") is None


@pytest.mark.parametrize(
    ("site", "own"),
    [
        (None, ["https://acme.sg/team", "https://news.sg/1", "lusha"]),
        (GIVEN, ["https://acme.sg/team", "lusha"]),
        (CONFIRMED, ["https://acme.sg/team", "lusha"]),
        (PROBABLE, []),
    ],
)
def test_contacts_are_the_companys_own_only_where_its_site_is(site, own):
    found = tuple(
        Contact(name=f"Mei {n}", source=source, confidence=0.9)
        for n, source in enumerate(("https://acme.sg/team", "https://news.sg/1", "lusha"))
    )
    record = replace(looked_up(site), contacts=found)
    assert [contact.source for contact in list_own_contacts(record)] == own
    assert (choose_best_contact(record) is None) is (not own)
