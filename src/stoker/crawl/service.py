"""Visit one site now, because a person asks for it: reserve pull units, visit, store the pages.

Sites cost no money; a visit counts pull units and passes the budget. Every such visit is one of its
own, however often a site is visited.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

from stoker.base.errors import ConflictError
from stoker.budgets.charges import Refusal, SpendRequest
from stoker.budgets.model import Connector
from stoker.budgets.service import BudgetService, SettledCall
from stoker.crawl.model import SiteVisit, VisitRequest

if TYPE_CHECKING:
    from stoker.crawl.store import PageStore

_MAX_SITE_LENGTH = 200  # characters of a site in a key; the unique part comes after it


def build_visit_spend(
    site: str, *, connector: str, price: Mapping[str, int], unlike_others: str
) -> SpendRequest:
    """Return the spend request of a visit; `unlike_others` makes its key unique.

    The key can be stored and shown whatever characters the site has.
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
    slot: AbstractAsyncContextManager[object],
    unlike_others: str,
    again: bool = False,
) -> SiteVisit | Refusal:
    """Visit a site and store its pages; Refusal when a cap or a stop forbids it.

    Fetches only changes, unless `again` asks for everything. Raises PermanentError for what is no
    URL, before anything is fetched or reserved, and ConflictError when this very visit is in
    progress elsewhere.
    """
    price = crawler.price(VisitRequest(url=url))
    question = VisitRequest(url=url, known=() if again else await pages.list_pages(site))
    request = build_visit_spend(
        site, connector=crawler.name, price=price, unlike_others=unlike_others
    )
    outcome = await gate.spend(request, lambda: crawler.ask(question, key=request.key), slot=slot)
    if isinstance(outcome, Refusal):
        return outcome
    if not isinstance(outcome, SettledCall):
        raise ConflictError("this very look is under way elsewhere; try again")
    visit: SiteVisit = outcome.answer
    await pages.save_pages(visit.site, visit.seen)
    return visit
