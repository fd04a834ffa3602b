"""One look at one site because somebody asks for it now: paid for, visited, remembered.

Sites are free of charge; a look counts pull units, through the gate like everything else. What a
night looks at, and how deep, is not known here.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from stoker.core.budget import Refused
from stoker.core.pages import SiteQuestion, SiteVisit
from stoker.core.site_looks import look_promised
from stoker.engine.paying import Gate, Paid
from stoker.errors import ConflictError
from stoker.sources import Connector, PageStore


async def look_at(
    url: str,
    *,
    site: str,
    crawler: Connector[SiteQuestion, SiteVisit],
    pages: PageStore,
    gate: Gate,
    passage: AbstractAsyncContextManager[object],
    unlike_others: str,
    again: bool = False,
) -> SiteVisit | Refused:
    """Visit a site and remember its pages; Refused when a cap or a stop does not allow a look.

    Only changes are asked for, unless `again` says that everything is to be read. Raises
    PermanentError for what is no address, before anything is looked up or paid, and ConflictError
    when this very look is under way elsewhere.
    """
    price = crawler.price(SiteQuestion(url=url))
    question = SiteQuestion(url=url, known=() if again else await pages.pages(site))
    request = look_promised(site, connector=crawler.name, price=price, unlike_others=unlike_others)
    outcome = await gate.pay_for(
        request, lambda: crawler.ask(question, key=request.key), passage=passage
    )
    if isinstance(outcome, Refused):
        return outcome
    if not isinstance(outcome, Paid):
        raise ConflictError("this very look is under way elsewhere; try again")
    visit: SiteVisit = outcome.answer
    await pages.remember_pages(visit.site, visit.seen)
    return visit
