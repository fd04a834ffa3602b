"""lusha.test: the V3 API. People and companies, found for little and revealed for credits.

A data point is charged once per key, however often it is asked for. Who may be revealed at all
follows from the world. What a person looks like on the wire is in `lusha_records`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any

from stoker.core.model import Json
from stoker.sandbox.billing import Till, good_key
from stoker.sandbox.dialling import dialled
from stoker.sandbox.dials import Dials
from stoker.sandbox.lusha_records import LushaRecords
from stoker.sandbox.serving import Asked, Handler, Told, json_told
from stoker.sandbox.tallies import Tallies
from stoker.sandbox.world import World

NAME = "lusha"
MOST_ITEMS = 100
PRICES = {"emails": 1, "phones": 5}
# What the account's page speaks of. How strict the vendor really is, its dials say, and headers.
PLAN = {"minute": (300, 60), "hourly": (1_800, 3_600), "daily": (18_000, 86_400)}
PLENTY = 1_000_000  # as many times the plan, for a window in which nothing is refused
_WORDS = {
    400: "Bad Request",
    401: "Unauthorized: invalid API key",
    402: "Payment Required: your account has run out of credits",
    403: "Forbidden: your plan does not include this endpoint",
    404: "Not Found",
    412: "Precondition Failed: the request cannot be fulfilled",
    451: "Unavailable For Legal Reasons: the contact is protected under GDPR",
    499: "Client Closed Request",
    500: "Internal Server Error",
    503: "Service Unavailable",
}
Body = Mapping[str, Any]


class _WrongError(Exception):
    """The question is not one the vendor can answer."""


def lusha(world: World, dials: Dials, tallies: Tallies) -> Handler:
    """Return the vendor's handler."""
    vendor = _Lusha(world, dials, tallies)
    return dialled(
        NAME, vendor.answer, seed=world.seed, dials=dials, tallies=tallies, refused=vendor.refused
    )


class _Lusha:
    def __init__(self, world: World, dials: Dials, tallies: Tallies) -> None:
        self._records = LushaRecords(world)
        self._till = Till(NAME, dials=dials, tallies=tallies)
        self._dials = dials
        self._revealed: set[tuple[str, str, str]] = set()
        self._calls: Counter[tuple[str, str, int]] = Counter()
        self._posts: Mapping[str, Callable[[str, Body], dict[str, Json]]] = {
            "/v3/contacts/search": self._search,
            "/v3/contacts/enrich": self._enrich,
            "/v3/contacts/search-and-enrich": self._search_and_enrich,
            "/v3/contacts/prospecting": self._prospecting,
            "/v3/companies/search": self._companies_found,
            "/v3/companies/enrich": self._companies_by_id,
            "/v3/companies/search-and-enrich": self._companies,
        }

    def refused(self, status: int, why: str = "") -> Told:
        """Refuse in the vendor's words."""
        said = why or _WORDS.get(status, "Error")
        headers = self._headers("")
        if status == 429:
            window = self._strict_window()
            said = f"Too Many Requests: {window} rate limit exceeded"
            headers[f"x-{window}-requests-left"] = "0"
        return json_told({"statusCode": status, "message": said}, status=status, headers=headers)

    def _strict_window(self) -> str:
        seconds = self._dials.of(NAME).window.total_seconds()
        return "daily" if seconds >= 86_400 else "hourly" if seconds >= 3_600 else "minute"

    def answer(self, asked: Asked) -> Told:
        """Answer one request."""
        key = asked.headers.get("api_key", "")
        if not good_key(key):
            return self.refused(401)
        self._count(key)
        if (asked.method, asked.path) == ("GET", "/v3/account/usage"):
            return json_told(self._usage(key), headers=self._headers(key))
        act = self._posts.get(asked.path)
        if act is None or asked.method != "POST":
            return self.refused(404)
        try:
            body = asked.json()
            if not isinstance(body, Mapping):
                raise _WrongError("the body must be an object")
            told = act(key, body)
        except (ValueError, TypeError, _WrongError) as error:
            return self.refused(400, f"Bad Request: {error}")
        except PermissionError:
            return self.refused(402)
        return json_told({"requestId": _request_id(asked.body), **told}, headers=self._headers(key))

    def _search(self, key: str, body: Body) -> dict[str, Json]:
        items = _listed(body, "contacts")
        results = [self._records.found(item) for item in items]
        return self._charged_search(key, results)

    def _prospecting(self, key: str, body: Body) -> dict[str, Json]:
        pagination, filters = body.get("pagination", {}), body.get("filters")
        if not isinstance(filters, Mapping) or not isinstance(pagination, Mapping):
            raise _WrongError("filters must be an object")
        page, size = pagination.get("page", 0), pagination.get("size", 25)
        if not _whole(page, 0, 10_000) or not _whole(size, 1, 100):
            raise _WrongError("pagination.page is from 0 on, pagination.size from 1 to 100")
        everybody = self._records.prospects(filters)
        chosen = everybody[page * size : (page + 1) * size]
        told = self._charged_search(key, [self._records.outline(*each) for each in chosen])
        return {
            **told,
            "pagination": {"page": page, "size": size, "total": len(everybody)},
        }

    def _enrich(self, key: str, body: Body) -> dict[str, Json]:
        ids = _listed(body, "ids")
        return self._charged_reveal(key, [self._records.by_id(id_) for id_ in ids], ids, body)

    def _search_and_enrich(self, key: str, body: Body) -> dict[str, Json]:
        items = _listed(body, "contacts")
        found = [self._records.match(item) for item in items]
        references = [
            item.get("clientReferenceId") if isinstance(item, Mapping) else None for item in items
        ]
        return self._charged_reveal(key, found, references, body, named="clientReferenceId")

    def _charged_search(self, key: str, results: list[Json]) -> dict[str, Json]:
        found = sum(1 for one in results if isinstance(one, Mapping) and "error" not in one)
        listed = max(1, -(-found // 25))
        return {
            "results": results,
            "billing": {"creditsCharged": self._taken(key, listed), "resultsReturned": found},
        }

    def _charged_reveal(
        self, key: str, found: list[Any], names: list[Any], body: Body, *, named: str = "id"
    ) -> dict[str, Json]:
        reveal = body.get("reveal", ["emails", "phones"])
        if not isinstance(reveal, list) or not reveal or not set(map(str, reveal)) <= set(PRICES):
            raise _WrongError("reveal is a list of emails and phones")
        results: list[Json] = []
        bought: list[tuple[str, str, str]] = []
        for who, name in zip(found, names, strict=True):
            told, points = self._records.revealed(who, [str(one) for one in reveal])
            results.append({named: name, **told} if named != "id" or who is None else told)
            bought += [(key, *point) for point in points]
        new = [point for point in dict.fromkeys(bought) if point not in self._revealed]
        charged = self._taken(key, sum(PRICES[field] for _, _, field in new))
        self._revealed.update(new)
        returned = sum(1 for one in results if isinstance(one, Mapping) and "error" not in one)
        return {
            "results": results,
            "billing": {"creditsCharged": charged, "resultsReturned": returned},
        }

    def _companies_found(self, key: str, body: Body) -> dict[str, Json]:
        items = _listed(body, "companies")
        return self._charged_search(key, [self._records.company(i, full=False) for i in items])

    def _companies(self, key: str, body: Body) -> dict[str, Json]:
        return self._charged_companies(key, _listed(body, "companies"))

    def _companies_by_id(self, key: str, body: Body) -> dict[str, Json]:
        return self._charged_companies(key, [{"id": id_} for id_ in _listed(body, "ids")])

    def _charged_companies(self, key: str, items: list[Any]) -> dict[str, Json]:
        results = [self._records.company(item, full=True) for item in items]
        ids = [str(one["id"]) for one in results if isinstance(one, Mapping) and "id" in one]
        new = [
            point
            for point in dict.fromkeys((key, id_, "company") for id_ in ids)
            if point not in self._revealed
        ]
        charged = self._taken(key, len(new))
        self._revealed.update(new)
        return {
            "results": results,
            "billing": {"creditsCharged": charged, "resultsReturned": len(ids)},
        }

    def _taken(self, key: str, listed: int) -> int:
        if not self._till.has(key, listed):
            raise PermissionError("no credits")
        return self._till.take(key, listed)

    def _usage(self, key: str) -> Json:
        used = self._till.used(key)
        total = self._till.limit(key, otherwise=100_000)
        limit, seconds = PLAN["daily"]
        calls = self._used(key, "daily", seconds)
        return {
            "credits": {"total": total, "used": used, "remaining": total - used},
            "rateLimits": {
                "daily": {
                    "limit": limit,
                    "used": calls,
                    "remaining": limit - calls,
                    "resetsAt": "2026-11-17T00:00:00.000Z",
                }
            },
            "plan": {"name": "Premium", "category": "unified credits"},
            "pricing": {"revealEmail": PRICES["emails"], "revealPhone": PRICES["phones"]},
        }

    def _used(self, key: str, window: str, seconds: int) -> int:
        return self._calls[key, window, int(time.monotonic() // seconds)]

    def _count(self, key: str) -> None:
        now = {window: int(time.monotonic() // seconds) for window, (_, seconds) in PLAN.items()}
        for window, at in now.items():
            self._calls[key, window, at] += 1
        if len(self._calls) > 10_000:
            over = [place for place in self._calls if place[2] < now[place[1]]]
            for place in over:
                del self._calls[place]

    def _limit(self, window: str) -> int:
        dial = self._dials.of(NAME)
        plan, seconds = PLAN[window]
        if dial.calls <= 0 or window != self._strict_window():
            return plan * PLENTY
        return max(1, int(dial.calls * seconds / dial.window.total_seconds()))

    def _headers(self, key: str) -> dict[str, str]:
        headers: dict[str, str] = {}
        for window, (_, seconds) in PLAN.items():
            used, limit = self._used(key, window, seconds), self._limit(window)
            headers[f"x-rate-limit-{window}"] = str(limit)
            headers[f"x-{window}-requests-left"] = str(max(0, limit - used))
            headers[f"x-{window}-usage"] = str(used)
        return headers


def _listed(body: Body, name: str) -> list[Any]:
    items = body.get(name)
    if not isinstance(items, list) or not 1 <= len(items) <= MOST_ITEMS:
        raise _WrongError(f"{name} must be a list of 1 to {MOST_ITEMS}")
    return items


def _whole(value: Any, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _request_id(body: bytes) -> str:
    return sha256(body).hexdigest()[:24]
