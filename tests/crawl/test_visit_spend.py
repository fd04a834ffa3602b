"""What a look at a site is promised as."""

from hypothesis import example, given
from hypothesis import strategies as st

from stoker.base.types import is_storable
from stoker.crawl.service import build_visit_spend

PRICE = {"pull_units": 1}


def promised(site, unlike_others="a1"):
    return build_visit_spend(site, connector="crawl", price=PRICE, unlike_others=unlike_others)


@given(st.text())
@example("acme.test")
@example("\x00\ud800\n" * 300)
@example("")
def test_a_look_at_whatever_is_typed_can_be_promised_and_kept(site):
    request = promised(site)
    assert (request.connector, request.amounts) == ("crawl", PRICE)
    assert is_storable(request.key)
    assert is_storable(request.account)


@given(st.text(), st.text("0123456789abcdef", min_size=1, max_size=16))
def test_two_looks_are_never_the_same_one(site, other):
    assert (promised(site).key == promised(site, other).key) == (other == "a1")
    assert promised(site).account == promised(site, other).account


def test_a_site_is_found_under_its_name():
    assert promised("acme.com.sg").key == "crawl/acme.com.sg/a1"
    assert promised("acme.com.sg").account == "acme.com.sg"
