"""Companies and persons that people already have, in whatever way they wrote them."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.crm.matching import (
    CompanyIndex,
    Doubt,
    KnownPerson,
    Match,
    find_person,
    normalize_number,
    split_legal_form,
)
from stoker.crm.model import CompanyIdentity


def ours(nth):
    return CompanyIdentity(
        number=f"2009{nth:05}A",
        website=f"https://www.firm{nth}.sg/",
        mail_domains=(f"firm{nth}.sg",),
        name=f"NORTHSTAR {nth} TRADING PTE. LTD.",
    )


GUISES = {  # what people typed, by the number of the company
    "number": lambda n: {"name": f"Client {n}", "company_registry": f"2009{n:05}A"},
    "number with a space": lambda n: {"name": f"C {n}", "company_registry": f"2009 {n:05}a"},
    "number in vat": lambda n: {"name": f"Client {n}", "vat": f"2009{n:05}A"},
    "same name": lambda n: {"name": f"NORTHSTAR {n} TRADING PTE. LTD."},
    "other letters": lambda n: {"name": f"Northstar {n} Trading (Private) Limited"},
    "website": lambda n: {"name": f"Client {n}", "website": f"https://www.firm{n}.sg/home"},
    "bare website": lambda n: {"name": f"Client {n}", "website": f"firm{n}.sg"},
    "mail domain": lambda n: {"name": f"Client {n}", "email": f"Hello@Firm{n}.sg"},
}


def build_index(*records):
    index = CompanyIndex()
    for id_, values in enumerate(records, start=1):
        index.add(id_, values)
    return index


def test_forty_eight_companies_in_eight_guises_are_recognised():
    cases = list(enumerate(product(GUISES.values(), range(6)), start=1))
    index = build_index(*(guise(nth) for nth, (guise, _) in cases))

    found = [index.find(ours(nth)) for nth, _ in cases]

    assert [each.id for each in found if isinstance(each, Match)] == [nth for nth, _ in cases]


SOUNDS = ["Acme", "Akme", "Acmé", "Acme Asia", "Acme (S)", "Acme Co", "Acme Group", "Acme Hub"]
TRADES = ["Tech", "Technology", "Technologies", "Techno", "Trading"]
FORMS = ["Pte Ltd", "LLP", "Pte. Ltd.", "Ltd", "Inc"]


def test_none_of_two_hundred_companies_with_like_sounding_names_is_linked_to_another():
    names = [" ".join(words) for words in product(SOUNDS, TRADES, FORMS)]
    assert len(names) == 200
    index = build_index(
        *(
            {"name": name, "company_registry": f"1990{nth:05}B", "website": f"site{nth}.sg"}
            for nth, name in enumerate(names)
        )
    )
    for nth, name in enumerate(names):
        stranger = CompanyIdentity(number=f"2020{nth:05}C", name=name.upper())
        assert not isinstance(index.find(stranger), Match), name
        itself = CompanyIdentity(number=f"1990{nth:05}B", name="Anything")
        assert index.find(itself) == Match(nth + 1, "number")


def test_like_sounding_names_without_numbers_are_told_apart_or_left_to_people():
    names = [f"{sound} {trade}" for sound, trade in product(SOUNDS, TRADES)]
    index = build_index(*({"name": name} for name in names))
    for nth, name in enumerate(names, start=1):
        assert index.find(CompanyIdentity(number="1", name=f"{name} Pte Ltd")) == Match(nth, "name")


@pytest.mark.parametrize(
    ("there", "why"),
    [
        ({"website": "https://elsewhere.sg"}, "another website"),
        ({"email": "a@elsewhere.sg"}, "another mail domain"),
        ({"name": "Northstar 1 Trading LLP"}, "another legal form"),
    ],
)
def test_a_name_alone_against_the_evidence_is_a_doubt(there, why):
    found = build_index({"name": "Northstar 1 Trading", **there}).find(ours(1))
    assert isinstance(found, Doubt)
    assert why in found.reason


@pytest.mark.parametrize("guise", ["number", "same name", "website", "mail domain"])
def test_two_records_of_one_company_are_a_doubt(guise):
    twice = build_index(GUISES[guise](1), GUISES[guise](1)).find(ours(1))
    assert isinstance(twice, Doubt)
    assert twice.ids == (1, 2)


def test_of_several_companies_with_one_website_the_one_of_the_same_name_is_it():
    site = {"website": "www.firm1.sg"}
    index = build_index({"name": "Holding", **site}, {"name": "Northstar 1 Trading", **site})
    assert index.find(ours(1)) == Match(2, "website")


def test_a_company_with_a_number_of_its_own_is_another_one_whatever_else_is_the_same():
    same = {"name": ours(1).name, "website": ours(1).website, "email": "a@firm1.sg"}
    assert build_index({**same, "company_registry": "199912345Z"}).find(ours(1)) is None
    assert build_index({**same, "vat": "M90365123X"}).find(ours(1)) == Match(1, "website")


def test_pages_on_a_network_and_free_mail_recognise_no_company():
    index = build_index(
        {"name": "A", "website": "https://www.facebook.com/a", "email": "a@gmail.com"}
    )
    other = CompanyIdentity(website="https://facebook.com/b", mail_domains=("gmail.com",), name="B")
    assert index.find(other) is None


def test_a_record_that_is_not_archived_goes_before_archived_ones():
    index = build_index({**GUISES["number"](1), "active": None}, GUISES["number"](1))
    assert index.find(ours(1)) == Match(2, "number")
    assert build_index({**GUISES["number"](1), "active": None}).find(ours(1)) == Match(1, "number")


@given(st.text(max_size=80))
def test_what_a_name_is_compared_by_does_not_depend_on_case_and_form(name):
    core, _ = split_legal_form(name)
    assert split_legal_form(core)[0] == core or not core
    assert normalize_number(normalize_number(name)) == normalize_number(name)


def person(id_, company=None, **known):
    return KnownPerson(id=id_, is_active=known.pop("active", True), company=company, **known)


def test_a_person_is_recognised_under_the_company_or_without_one_and_nowhere_else():
    here, alone, elsewhere = person(1, company=7), person(2), person(3, company=8)
    assert find_person([elsewhere, alone, here], company=7) == here
    assert find_person([elsewhere, alone], company=7) == alone
    assert find_person([elsewhere], company=7) is None
    assert find_person([alone], company=None) == alone
    assert find_person([person(5, is_company=True)], company=7) is None
    assert find_person([person(1, active=False), person(4)], company=None) == person(4)
