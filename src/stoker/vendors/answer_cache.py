"""What every store can keep of what connectors said; the rest is refused unwritten.

Each function returns a value as a store gives it back, as `core.keeping` does for other values,
and raises what it raises. Names that rows are found by are held to the length every database's
keys can have.

One tenant's memory of what connectors said, in SQL: pages of sites, and paid answers.

Rows are written in the order of their keys, so that two who write the same ones never wait for
each other crosswise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from stoker.base.jsontools import compact_json
from stoker.base.types import TenantId, in_utc
from stoker.crawl.model import PageSeen
from stoker.crawl.row_checks import LONGEST_SITE, kept_page
from stoker.db.codec import kept_json, kept_text
from stoker.db.database import SqlDatabase, Transaction, asked, json_value, moment, moment_text
from stoker.db.values import kept_name
from stoker.vendors.model import Kept


def kept_answer(kept: Kept) -> Kept:
    """Return a paid answer as a store gives it back."""
    kept_name(kept.key, what="an answer's key")
    kept_text(kept.connector, what="a connector's name")
    return replace(
        kept,
        answer=kept_json(kept.answer, what="an answer"),
        cost=kept_json(dict(kept.cost), what="an answer's cost"),
        at=in_utc(kept.at, what="when an answer came"),
        good_until=in_utc(kept.good_until, what="how long an answer is good"),
    )


PAGES = """
SELECT url, status, etag, last_modified, fingerprint, seen_at, changed_at FROM site_pages
WHERE tenant_id = :tenant AND site = :site ORDER BY url
"""

REMEMBER = """
INSERT INTO site_pages (tenant_id, site, url, status, etag, last_modified, fingerprint, seen_at,
                        changed_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (tenant_id, site, url) DO UPDATE SET
    status = excluded.status, etag = excluded.etag, last_modified = excluded.last_modified,
    fingerprint = excluded.fingerprint, seen_at = excluded.seen_at,
    changed_at = excluded.changed_at
"""

FORGET_SITE = "DELETE FROM site_pages WHERE tenant_id = :tenant AND site = :site"

KEEP = """
INSERT INTO vendor_answers (tenant_id, key, connector, answer, cost, at, good_until)
VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (tenant_id, key) DO UPDATE SET
    connector = excluded.connector, answer = excluded.answer, cost = excluded.cost,
    at = excluded.at, good_until = excluded.good_until
"""

ANSWERS = """
SELECT v.key, v.connector, v.answer, v.cost, v.at, v.good_until
FROM asked JOIN vendor_answers v ON v.tenant_id = :tenant AND v.key = asked.id
"""

# Asked again outside: an answer that was kept anew since it was found to be old stays.
FORGET_ANSWERS = """
DELETE FROM vendor_answers WHERE tenant_id = :tenant AND good_until < :before AND key IN (
    SELECT key FROM vendor_answers WHERE tenant_id = :tenant AND good_until < :before
    ORDER BY good_until, key LIMIT :limit)
"""


class SqlPages:
    """A `PageStore` in the table `site_pages`."""

    def __init__(self, database: SqlDatabase, tenant: TenantId) -> None:
        self._database = database
        self._tenant = tenant

    async def pages(self, site: str) -> list[PageSeen]:
        values = {"tenant": self._tenant, "site": _site(site)}
        return [
            _page(row) for row in await self._database.read(lambda tx: tx.rows(PAGES, **values))
        ]

    async def remember_pages(self, site: str, pages: Sequence[PageSeen]) -> None:
        place = (self._tenant, _site(site))
        seen = {page.url: page for page in map(kept_page, pages)}
        rows = [
            (
                *place,
                url,
                page.status,
                page.etag,
                page.last_modified,
                page.fingerprint,
                moment_text(page.seen_at),
                moment_text(page.changed_at),
            )
            for url, page in sorted(seen.items())
        ]
        if rows:
            await self._database.write(lambda tx: tx.change_many(REMEMBER, rows))

    async def forget_site(self, site: str) -> int:
        values = {"tenant": self._tenant, "site": _site(site)}
        return await self._database.write(lambda tx: tx.change(FORGET_SITE, **values))


class SqlAnswers:
    """An `AnswerStore` in the table `vendor_answers`."""

    def __init__(self, database: SqlDatabase, tenant: TenantId) -> None:
        self._database = database
        self._tenant = tenant

    async def keep_answers(self, answers: Sequence[Kept]) -> None:
        latest = {kept.key: kept for kept in map(kept_answer, answers)}
        rows = [
            (
                self._tenant,
                key,
                kept.connector,
                # In a list, so that an answer of one word is not taken for JSON not yet read.
                compact_json([kept.answer]),
                compact_json(kept.cost),
                moment_text(kept.at),
                moment_text(kept.good_until),
            )
            for key, kept in sorted(latest.items())
        ]
        if rows:
            await self._database.write(lambda tx: tx.change_many(KEEP, rows))

    async def answers(self, keys: Sequence[str]) -> dict[str, Kept]:
        names = sorted({kept_name(key, what="an answer's key") for key in keys})

        def find(tx: Transaction) -> list[tuple[Any, ...]]:
            found: list[tuple[Any, ...]] = []
            for query, some in asked(ANSWERS, names):
                found += tx.rows(query, tenant=self._tenant, **some)
            return found

        rows = await self._database.read(find) if names else []
        return {row[0]: _answer(row) for row in sorted(rows, key=lambda row: row[0])}

    async def forget_answers(self, *, before: datetime, limit: int = 10_000) -> int:
        end = moment_text(before)
        return await self._database.write(
            lambda tx: tx.change(FORGET_ANSWERS, tenant=self._tenant, before=end, limit=limit)
        )


def _site(site: str) -> str:
    return kept_name(site, what="a site's name", longest=LONGEST_SITE)


def _page(row: tuple[Any, ...]) -> PageSeen:
    url, status, etag, last_modified, fingerprint, seen_at, changed_at = row
    return PageSeen(
        url=url,
        status=status,
        etag=etag,
        last_modified=last_modified,
        fingerprint=fingerprint,
        seen_at=moment(seen_at),
        changed_at=moment(changed_at),
    )


def _answer(row: tuple[Any, ...]) -> Kept:
    key, connector, answer, cost, at, good_until = row
    return Kept(
        key=key,
        connector=connector,
        answer=json_value(answer)[0],
        cost=json_value(cost),
        at=moment(at),
        good_until=moment(good_until),
    )
