"""Texts that break something put into every store: they come back letter for letter, or not at all.

Used with small counts by the tests and with large ones by `proof.web`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta

from contracts.backends import ACME
from faults.tally import Tally
from stoker.accounts.icp import IcpRule
from stoker.accounts.model import Company, CompanyId
from stoker.base.errors import ConfigError, PermanentError
from stoker.context import Backend, TenantStores
from stoker.crawl.model import PageState
from stoker.vendors.model import CachedAnswer

AT = datetime(2030, 1, 1, tzinfo=UTC)


async def company(store: TenantStores, text: str, nth: int) -> AsyncIterator[object]:
    told = Company(id=CompanyId("T1"), name=text or "-")
    yield await store.accounts.upsert_companies([told], now=AT)
    found = await store.accounts.find_company_record(CompanyId("T1"))
    yield found.company.name if found is not None and text else text


async def rule(store: TenantStores, text: str, nth: int) -> AsyncIterator[object]:
    yield await store.accounts.save_rule(IcpRule(name=text))
    found = await store.accounts.find_rule(text)
    yield found.name if found is not None else None


async def answer(store: TenantStores, text: str, nth: int) -> AsyncIterator[object]:
    until = AT + timedelta(days=1)
    kept = CachedAnswer(
        key="k", connector="x", answer={"t": text}, cost={}, at=AT, expires_at=until
    )
    yield await store.answers.save_answers([kept])
    found = (await store.answers.find_answers(["k"]))["k"].answer
    yield found["t"] if isinstance(found, dict) else found


async def page(store: TenantStores, text: str, nth: int) -> AsyncIterator[object]:
    seen = PageState(url="http://a.test/", status=200, etag=text, seen_at=AT, changed_at=AT)
    yield await store.pages.save_pages("a.test", [seen])
    yield (await store.pages.list_pages("a.test"))[0].etag


PLACES = {"company": company, "rule": rule, "answer": answer, "page": page}


def kept(name: str, opening: AbstractAsyncContextManager[Backend], texts: Iterable[str]) -> Tally:
    """Put every text into every place of a store; tally what neither stayed nor was refused."""
    return asyncio.run(_kept(name, opening, texts))


async def _kept(
    name: str, opening: AbstractAsyncContextManager[Backend], texts: Iterable[str]
) -> Tally:
    tally = Tally()
    async with opening as backend:
        store = backend.tenant(ACME)
        for nth, text in enumerate(texts):
            for where, put in PLACES.items():
                tally.n += 1
                try:
                    *_, back = [each async for each in put(store, text, nth % 50)]
                except (PermanentError, ConfigError) as error:
                    if "\n" in str(error) or "\0" in str(error):
                        tally.broken.append(f"{where} on {name}: {text[:20]!r} is in the error")
                    continue
                tally.acked += 1
                if back != text:
                    tally.broken.append(f"{where} on {name}: {text[:40]!r} became {back!r:.60}")
    return tally
