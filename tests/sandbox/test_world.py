import gc
import sys

import phonenumbers
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stdnum.sg import uen

from stoker.base.errors import ConfigError
from stoker.sandbox.sites.layout import build_layout
from stoker.sandbox.world.companies import FIRST_NIGHT, MAX_COMPANIES, World
from stoker.sandbox.world.jobs import list_openings
from stoker.sandbox.world.site_faults import SiteFault

seeds = st.integers(0, 2**64)
places = st.integers(0, MAX_COMPANIES - 1)


@given(seeds, places)
def test_a_company_is_the_same_in_every_world_of_one_seed(seed, index):
    small, large = World(seed=seed, size=index + 1), World(seed=seed, size=MAX_COMPANIES)

    assert small.get_company(index) == large.get_company(index)


@given(seeds, places)
def test_every_company_is_found_by_its_number_its_domain_and_its_addresses(seed, index):
    world = World(seed=seed, size=MAX_COMPANIES)
    company = world.get_company(index)

    assert uen.is_valid(company.uen)
    assert world.find_by_uen(company.uen.lower()) == company
    assert world.find_by_domain(f"www.{company.domain.upper()}.") == company
    assert world.find_by_email(company.email) == (company, None)
    for person in company.people:
        assert world.find_by_email(person.email) == (company, person)


@given(seeds, places, places)
def test_no_two_companies_share_a_number_or_a_domain(seed, one, other):
    world = World(seed=seed, size=MAX_COMPANIES)
    a, b = world.get_company(one), world.get_company(other)

    assert (a.uen == b.uen) == (a.domain == b.domain) == (one == other)


@given(st.text())
def test_what_names_no_company_finds_none(text):
    world = World(size=50)

    assert world.find_by_uen(text) is None
    assert world.find_by_domain(text) is None
    assert world.find_by_email(text) is None


@pytest.mark.parametrize(
    "wrong", ["201700003C-", "T25FC9999X", "19650000", "٢٠١٧٠٠٠٠٣C", "T00FC0001A"]
)
def test_a_number_that_is_almost_one_finds_none(wrong):
    assert World(size=MAX_COMPANIES).find_by_uen(wrong) is None


def test_a_company_beyond_the_worlds_end_is_not_found_by_its_number():
    beyond = World(seed=4, size=200).get_company(150)

    small = World(seed=4, size=100)
    assert small.find_by_uen(beyond.uen) is None
    assert small.find_by_domain(beyond.domain) is None
    with pytest.raises(IndexError):
        small.get_company(150)


@pytest.mark.parametrize("size", [0, -1, MAX_COMPANIES + 1])
def test_a_world_whose_numbers_would_not_fit_is_refused(size):
    with pytest.raises(ConfigError, match="a world has"):
        World(size=size)


@given(places)
def test_companies_look_like_singapore(index):
    company = World(seed=7, size=MAX_COMPANIES).get_company(index)

    assert phonenumbers.is_valid_number(phonenumbers.parse(company.phone, None))
    for person in company.people:
        assert phonenumbers.is_valid_number(phonenumbers.parse(person.phone, None))
    assert len(company.postal_code) == 6
    assert company.postal_code.isdigit()
    assert len(company.ssic) == 5
    assert company.branch or company.incorporated.year == int(company.uen[:4])
    assert 1 <= len(company.people) <= company.employees


def test_worlds_of_different_seeds_differ():
    assert World(seed=1).get_company(0) != World(seed=2).get_company(0)


def test_every_trouble_there_is_occurs_and_most_sites_are_fine():
    world = World(seed=1, size=5000)
    troubles = [world.get_company(index).trouble for index in range(5000)]

    assert set(troubles) == set(SiteFault) - {SiteFault.SQUATTED}
    assert troubles.count(SiteFault.FINE) > 2500


def kept_while(looking):
    """Return how many blocks of memory more are in use after each of the looks."""
    gc.collect()  # what other tests left lying about would be counted as ours
    before, kept = sys.getallocatedblocks(), []
    for companies in looking:
        for _ in companies:
            pass
        gc.collect()
        kept.append(sys.getallocatedblocks() - before)
    return kept


def test_however_many_companies_are_looked_at_only_a_few_are_kept():
    world = World(seed=1, size=100_000)

    some, more = kept_while(
        [map(world.get_company, range(4_500)), map(world.get_company, range(4_500, 100_000, 20))]
    )
    assert more < some * 1.1


def test_sites_and_job_boards_have_the_same_first_night():
    world = World(seed=7, size=200)
    companies = [world.get_company(index) for index in range(world.size)]
    pages = [build_layout(world, company).pages.values() for company in companies]
    first = {page.get_changed_at(0) for some in pages for page in some}
    posted = {
        opening.posted_at
        for company in companies
        for opening in list_openings(world, company, night=0)
    }
    assert first == {FIRST_NIGHT}
    assert max(posted) == FIRST_NIGHT
