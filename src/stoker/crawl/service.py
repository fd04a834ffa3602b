"""One look at one site because somebody asks for it now: paid for, visited, remembered.

Sites are free of charge; a look counts pull units, through the gate like everything else. What a
night looks at, and how deep, is not known here.

What a look at a site is promised as when a person asks for it, and what it may know.

Every such look is one of its own, however often the same site is looked at; what a night's look
counts, once a day, is not decided here.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager

from stoker.base.errors import ConflictError
from stoker.budgets.charges import Refusal, SpendRequest
from stoker.budgets.gate import BudgetService, SettledCall
from stoker.budgets.model import Connector
from stoker.crawl.model import PageStore, SiteVisit, VisitRequest

_MAX_SITE_LENGTH = (
    200  # letters of a site in a key; what tells one look from another comes after it
)


def build_visit_spend(
    site: str, *, connector: str, price: Mapping[str, int], unlike_others: str
) -> SpendRequest:
    """Return what is to be promised for a look at a site; `unlike_others` makes it a new one.

    Whatever letters a site is written in, its key can be kept and shown.
    """
    shown = "".join(letter if letter.isprintable() else "?" for letter in site[:_MAX_SITE_LENGTH])
    key = f"{connector}/{shown}/{unlike_others}"
    return SpendRequest(key=key, connector=connector, amounts=price, account=shown)


async def visit_site(
    url: str,
    *,
    site: str,
    crawler: Connector[VisitRequest, SiteVisit],
    pages: PageStore,
    gate: BudgetService,
    passage: AbstractAsyncContextManager[object],
    unlike_others: str,
    again: bool = False,
) -> SiteVisit | Refusal:
    """Visit a site and remember its pages; Refused when a cap or a stop does not allow a look.

    Only changes are asked for, unless `again` says that everything is to be read. Raises
    PermanentError for what is no address, before anything is looked up or paid, and ConflictError
    when this very look is under way elsewhere.
    """
    price = crawler.price(VisitRequest(url=url))
    question = VisitRequest(url=url, known=() if again else await pages.list_pages(site))
    request = build_visit_spend(
        site, connector=crawler.name, price=price, unlike_others=unlike_others
    )
    outcome = await gate.spend(
        request, lambda: crawler.ask(question, key=request.key), passage=passage
    )
    if isinstance(outcome, Refusal):
        return outcome
    if not isinstance(outcome, SettledCall):
        raise ConflictError("this very look is under way elsewhere; try again")
    visit: SiteVisit = outcome.answer
    await pages.save_pages(visit.site, visit.seen)
    return visit
