"""Store a tenant's paid answers and the states of crawled pages in SQL.

Rows are written in the order of their keys, so that two writers never deadlock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from stoker.base.jsontools import compact_json
from stoker.base.types import TenantId, to_utc
from stoker.crawl.model import PageState
from stoker.crawl.row_checks import MAX_SITE_BYTES, validate_page
from stoker.db.codec import validate_json, validate_text
from stoker.db.database import (
    Database,
    Transaction,
    from_db_json,
    from_db_time,
    split_into_batches,
    to_db_time,
)
from stoker.db.values import validate_key
from stoker.vendors.model import CachedAnswer


def validate_answer(answer: CachedAnswer) -> CachedAnswer:
    """Return a paid answer as a store returns it. Raises for what no database can store."""
    validate_key(answer.key, what="an answer's key")
    validate_text(answer.connector, what="a connector's name")
    return replace(
        answer,
        answer=validate_json(answer.answer, what="an answer"),
        cost=validate_json(dict(answer.cost), what="an answer's cost"),
        at=to_utc(answer.at, what="when an answer came"),
        expires_at=to_utc(answer.expires_at, what="how long an answer is good"),
    )


SELECT_PAGES = """
SELECT url, status, etag, last_modified, fingerprint, seen_at, changed_at FROM site_pages
WHERE tenant_id = :tenant AND site = :site ORDER BY url
"""

UPSERT_PAGE = """
INSERT INTO site_pages (tenant_id, site, url, status, etag, last_modified, fingerprint, seen_at,
                        changed_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (tenant_id, site, url) DO UPDATE SET
    status = excluded.status, etag = excluded.etag, last_modified = excluded.last_modified,
    fingerprint = excluded.fingerprint, seen_at = excluded.seen_at,
    changed_at = excluded.changed_at
"""

DELETE_SITE = "DELETE FROM site_pages WHERE tenant_id = :tenant AND site = :site"

UPSERT_ANSWER = """
INSERT INTO vendor_answers (tenant_id, key, connector, answer, cost, at, good_until)
VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (tenant_id, key) DO UPDATE SET
    connector = excluded.connector, answer = excluded.answer, cost = excluded.cost,
    at = excluded.at, good_until = excluded.good_until
"""

SELECT_ANSWERS = """
SELECT v.key, v.connector, v.answer, v.cost, v.at, v.good_until
FROM asked JOIN vendor_answers v ON v.tenant_id = :tenant AND v.key = asked.id
"""

# The outer condition repeats the inner one: an answer that was renewed meanwhile stays.
DELETE_ANSWERS = """
DELETE FROM vendor_answers WHERE tenant_id = :tenant AND good_until < :before AND key IN (
    SELECT key FROM vendor_answers WHERE tenant_id = :tenant AND good_until < :before
    ORDER BY good_until, key LIMIT :limit)
"""


class SqlPages:
    """A `PageStore` in the table `site_pages`."""

    def __init__(self, database: Database, tenant: TenantId) -> None:
        self._database = database
        self._tenant = tenant

    async def list_pages(self, site: str) -> list[PageState]:
        values = {"tenant": self._tenant, "site": _validate_site(site)}
        return [
            _to_page_state(row)
            for row in await self._database.read(lambda tx: tx.query(SELECT_PAGES, **values))
        ]

    async def save_pages(self, site: str, pages: Sequence[PageState]) -> None:
        site_key = (self._tenant, _validate_site(site))
        latest = {page.url: page for page in map(validate_page, pages)}
        rows = [
            (
                *site_key,
                url,
                page.status,
                page.etag,
                page.last_modified,
                page.fingerprint,
                to_db_time(page.seen_at),
                to_db_time(page.changed_at),
            )
            for url, page in sorted(latest.items())
        ]
        if rows:
            await self._database.write(lambda tx: tx.execute_many(UPSERT_PAGE, rows))

    async def delete_site(self, site: str) -> int:
        values = {"tenant": self._tenant, "site": _validate_site(site)}
        return await self._database.write(lambda tx: tx.execute(DELETE_SITE, **values))


class SqlAnswers:
    """An `AnswerStore` in the table `vendor_answers`."""

    def __init__(self, database: Database, tenant: TenantId) -> None:
        self._database = database
        self._tenant = tenant

    async def save_answers(self, answers: Sequence[CachedAnswer]) -> None:
        latest = {answer.key: answer for answer in map(validate_answer, answers)}
        rows = [
            (
                self._tenant,
                key,
                answer.connector,
                # In a list, so that an answer of one word is not mistaken for JSON not yet decoded.
                compact_json([answer.answer]),
                compact_json(answer.cost),
                to_db_time(answer.at),
                to_db_time(answer.expires_at),
            )
            for key, answer in sorted(latest.items())
        ]
        if rows:
            await self._database.write(lambda tx: tx.execute_many(UPSERT_ANSWER, rows))

    async def find_answers(self, keys: Sequence[str]) -> dict[str, CachedAnswer]:
        names = sorted({validate_key(key, what="an answer's key") for key in keys})

        def find(tx: Transaction) -> list[tuple[Any, ...]]:
            rows: list[tuple[Any, ...]] = []
            for query, ids in split_into_batches(SELECT_ANSWERS, names):
                rows += tx.query(query, tenant=self._tenant, **ids)
            return rows

        rows = await self._database.read(find) if names else []
        return {row[0]: _to_cached_answer(row) for row in sorted(rows, key=lambda row: row[0])}

    async def delete_answers(self, *, before: datetime, limit: int = 10_000) -> int:
        end = to_db_time(before)
        return await self._database.write(
            lambda tx: tx.execute(DELETE_ANSWERS, tenant=self._tenant, before=end, limit=limit)
        )


def _validate_site(site: str) -> str:
    return validate_key(site, what="a site's name", longest=MAX_SITE_BYTES)


def _to_page_state(row: tuple[Any, ...]) -> PageState:
    url, status, etag, last_modified, fingerprint, seen_at, changed_at = row
    return PageState(
        url=url,
        status=status,
        etag=etag,
        last_modified=last_modified,
        fingerprint=fingerprint,
        seen_at=from_db_time(seen_at),
        changed_at=from_db_time(changed_at),
    )


def _to_cached_answer(row: tuple[Any, ...]) -> CachedAnswer:
    key, connector, answer, cost, at, good_until = row
    return CachedAnswer(
        key=key,
        connector=connector,
        answer=from_db_json(answer)[0],
        cost=from_db_json(cost),
        at=from_db_time(at),
        expires_at=from_db_time(good_until),
    )
