"""A look at a site, asked for by a person: paid first, remembered after, refused with a reason."""

from contextlib import nullcontext
from datetime import UTC, datetime, timedelta

from hypothesis import example, given
from hypothesis import strategies as st

from stoker.backends.sqlite import MemoryBackend
from stoker.base.errors import ConflictError, PermanentError, TransientError
from stoker.base.types import TenantId, is_storable
from stoker.budgets.caps import Cap, Scope
from stoker.budgets.charges import Refusal
from stoker.budgets.model import Paid
from stoker.budgets.service import BudgetService
from stoker.budgets.windows import ResetRule, WindowKind
from stoker.crawl.model import PageState, SiteVisit, VisitOutcome
from stoker.crawl.service import build_visit_spend, visit_site
from stoker.testing import FakeClock

AT = datetime(2030, 1, 1, tzinfo=UTC)
SEEN = PageState(url="http://acme.test/", status=200, etag='"1"', seen_at=AT, changed_at=AT)


class Site:
    """A crawler that sees one page; it notes what it is told that we know."""

    name = "crawl"

    def __init__(self, *, fails=None):
        self.known, self._fails = [], fails

    def price(self, question):
        if "://" in question.url:
            raise PermanentError("this is no address")
        return {"pull_units": 1}

    async def ask(self, question, *, key):
        self.known.append(list(question.known))
        if self._fails:
            raise self._fails
        outcome = VisitOutcome.UNCHANGED if question.known else VisitOutcome.READ
        visit = SiteVisit(site="acme.test", outcome=outcome, reason="it was read", seen=(SEEN,))
        return Paid(answer=visit, cost={"pull_units": 1})


async def looks(site, *wishes, limit=10):
    """Take these looks in turn; return what came of them, and what was counted and remembered."""

    clock, store = FakeClock(), MemoryBackend().tenant(TenantId("acme"))
    cap = Cap(scope=Scope.TENANT, unit="pull_units", window=WindowKind.DAY, limit=limit)
    budget = BudgetService(
        store.budgets,
        caps=[cap],
        reset=ResetRule(),
        owner="one",
        clock=clock,
        lease=timedelta(seconds=60),
        tenant=store.tenant,
    )
    told = []
    for number, wish in enumerate(wishes):
        how = {"url": "acme.test", "unlike_others": str(number), **wish}
        try:
            told.append(
                await visit_site(
                    site="acme.test",
                    crawler=site,
                    pages=store.pages,
                    gate=budget,
                    slot=nullcontext(),
                    **how,
                )
            )
        except (PermanentError, TransientError, ConflictError) as error:
            told.append(error)
    used = sum(each.used.settled for each in await store.budgets.list_usage())
    return told, used, await store.pages.list_pages("acme.test")


async def test_a_second_look_knows_what_the_first_saw_unless_all_is_wanted_again():
    site = Site()
    told, used, remembered = await looks(site, {}, {}, {"again": True})
    assert [visit.outcome for visit in told] == ["read", "unchanged", "read"]
    assert site.known == [[], [SEEN], []]
    assert (used, remembered) == (3, [SEEN])


async def test_a_look_that_does_not_fit_is_refused_and_nobody_is_visited():
    site = Site()
    (first, second), used, _ = await looks(site, {}, {}, limit=1)
    assert first.outcome is VisitOutcome.READ
    assert isinstance(second, Refusal)
    assert (len(site.known), used) == (1, 1)


async def test_what_is_no_address_is_refused_before_anything_is_paid():
    site = Site()
    [error], used, _ = await looks(site, {"url": "file:///etc/passwd"})
    assert isinstance(error, PermanentError)
    assert (site.known, used) == ([], 0)


async def test_a_look_that_came_to_nothing_costs_nothing_and_leaves_what_was_known():
    [error], used, remembered = await looks(Site(fails=TransientError("later")), {})
    assert isinstance(error, TransientError)
    assert (used, remembered) == (0, [])


async def test_the_same_look_is_not_taken_twice():
    site = Site()
    (first, second), used, _ = await looks(site, {}, {"unlike_others": "0"})
    assert first.outcome is VisitOutcome.READ
    assert isinstance(second, ConflictError)
    assert (len(site.known), used) == (1, 1)


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
