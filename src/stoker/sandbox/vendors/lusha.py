"""lusha.test: the V3 API. Search costs little, revealing people costs credits.

A data point is charged once per key, however often it is requested. Search shows no personal data;
revealing does, for most people. Ids follow from the world, so a person's id never changes.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from stoker.base.types import Json
from stoker.sandbox.billing import Credits, is_valid_key
from stoker.sandbox.faults import FaultSettingsTable, wrap_with_faults
from stoker.sandbox.http import Handler, Request, Response, to_json_response
from stoker.sandbox.meter import Meter
from stoker.sandbox.random import to_uuid
from stoker.sandbox.world.companies import Company, Person, World

CompanyPerson = tuple[Company, Person]


class LushaRecords:
    """What the vendor has on the companies of a world."""

    def __init__(self, world: World) -> None:
        self._world = world

    def find_by_id(self, id_: Any) -> CompanyPerson | None:
        index, _, nth = str(id_).removeprefix("ct-").partition("-")
        if not (index.isascii() and index.isdigit() and nth.isascii() and nth.isdigit()):
            return None
        if len(index) > 12 or len(nth) > 4 or int(index) >= self._world.size:
            return None
        company = self._world.get_company(int(index))
        return (company, company.people[int(nth)]) if int(nth) < len(company.people) else None

    def list_prospects(self, filters: Mapping[str, Any]) -> list[CompanyPerson]:
        """Return the people at some companies that a filter lets through."""
        people = _get_included(filters, "contacts")
        domains = _get_included(filters, "companies").get("domains", [])
        found: list[CompanyPerson] = []
        for domain in domains[:100] if isinstance(domains, list) else []:
            company = self._world.find_by_domain(str(domain))
            if company is None:
                continue
            for person in company.people:
                if "work_email" in people.get("existingDataPoints", []) and not has_email(person):
                    continue
                found.append((company, person))
        return found

    def to_outline(self, company: Company, person: Person) -> dict[str, Json]:
        """Return what search shows of a person: nothing personal."""
        nth = company.people.index(person)
        has: list[str] = ["emails"] if has_email(person) else []
        has += ["phones"] if has_phone(person) else []
        return {
            "id": f"ct-{company.index}-{nth}",
            "firstName": person.first_name,
            "lastName": person.last_name,
            "jobTitle": {
                "title": person.title,
                "departments": [person.department],
                "seniority": person.seniority,
            },
            "company": {
                "id": f"co-{company.index}",
                "name": company.brand,
                "domain": company.domain,
            },
            "location": {"country": "Singapore", "city": "Singapore"},
            "socialLinks": {"linkedin": f"https://linkedin.example/in/{company.index}-{nth}"},
            "has": has,
            "canReveal": [{"field": field, "credits": PRICES[field]} for field in has],
        }

    def reveal_person(
        self, who: CompanyPerson | None, fields: list[str]
    ) -> tuple[dict[str, Json], list[tuple[str, str]]]:
        """Return a person with what is revealed, and the data points that were."""
        if who is None:
            return build_not_found(), []
        company, person = who
        result = self.to_outline(company, person)
        id_ = str(result["id"])
        fate = self._world.build_draws("lusha", id_).draw_share()
        if fate < 0.03:
            return _build_item_error(
                id_, "COMPLIANCE_RESTRICTED", "The contact asked not to be shown"
            ), []
        if fate < 0.05:
            return _build_item_error(id_, "ENRICH_FAILED", "The contact could not be enriched"), []
        points: list[tuple[str, str]] = []
        if "emails" in fields:
            result["emails"] = _to_emails(person)
            points += [(id_, "emails")] if has_email(person) else []
        if "phones" in fields:
            result["phones"] = _to_phones(person)
            points += [(id_, "phones")] if has_phone(person) else []
        return result, points


def has_email(person: Person) -> bool:
    """Say whether the vendor has an address of this person: of most it has."""
    return sum(person.email.encode()) % 10 != 0


def has_phone(person: Person) -> bool:
    """Say whether the vendor has a number of this person: of about half it has."""
    return sum(person.phone.encode()) % 2 == 0


def build_not_found() -> dict[str, Json]:
    return {"error": {"code": "NOT_FOUND", "message": "No match was found"}}


def _build_item_error(id_: str, code: str, message: str) -> dict[str, Json]:
    return {"id": id_, "error": {"code": code, "message": message}}


def _to_emails(person: Person) -> list[Json]:
    if not has_email(person):
        return []
    return [
        {
            "email": person.email,
            "type": "work",
            "confidence": "A+",
            "updateDate": "2026-10-01T00:00:00.000Z",
        }
    ]


def _to_phones(person: Person) -> list[Json]:
    if not has_phone(person):
        return []
    return [
        {
            "number": person.phone,
            "type": "mobile",
            "doNotCall": False,
            "updateDate": "2026-10-01T00:00:00.000Z",
        }
    ]


def _get_included(filters: Mapping[str, Any], of: str) -> Mapping[str, Any]:
    part = filters.get(of, {})
    include = part.get("include", {}) if isinstance(part, Mapping) else {}
    return include if isinstance(include, Mapping) else {}


NAME = "lusha"
MAX_ITEMS = 100
PRICES = {"emails": 1, "phones": 5}

# What the account's page speaks of. How strict the vendor really is, its dials say, and headers.
PLAN = {"minute": (300, 60), "hourly": (1_800, 3_600), "daily": (18_000, 86_400)}
UNLIMITED_CREDITS = 1_000_000  # as many times the plan, for a window in which nothing is refused

_REFUSAL_TEXTS = {
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


class _BadRequestError(Exception):
    """The question is not one the vendor can answer."""


def build_lusha_handler(world: World, dials: FaultSettingsTable, meter: Meter) -> Handler:
    vendor = _Lusha(world, dials, meter)
    return wrap_with_faults(
        NAME,
        vendor.answer,
        seed=world.seed,
        dials=dials,
        meter=meter,
        refused=vendor.build_refusal,
    )


class _Lusha:
    def __init__(self, world: World, dials: FaultSettingsTable, meter: Meter) -> None:
        self._records = LushaRecords(world)
        self._credits = Credits(NAME, dials=dials, meter=meter)
        self._dials = dials
        self._revealed: set[tuple[str, str, str]] = set()
        self._calls: Counter[tuple[str, str, int]] = Counter()
        self._posts: Mapping[str, Callable[[str, Body], dict[str, Json]]] = {
            "/v3/contacts/enrich": self._enrich,
            "/v3/contacts/prospecting": self._search_prospects,
        }

    def build_refusal(self, status: int, why: str = "") -> Response:
        message = why or _REFUSAL_TEXTS.get(status, "Error")
        headers = self._build_headers("")
        if status == 429:
            window = self._find_exceeded_window()
            message = f"Too Many Requests: {window} rate limit exceeded"
            headers[f"x-{window}-requests-left"] = "0"
        return to_json_response(
            {"statusCode": status, "message": message}, status=status, headers=headers
        )

    def _find_exceeded_window(self) -> str:
        seconds = self._dials.get_settings(NAME).window.total_seconds()
        return "daily" if seconds >= 86_400 else "hourly" if seconds >= 3_600 else "minute"

    def answer(self, request: Request) -> Response:
        key = request.headers.get("api_key", "")
        if not is_valid_key(key):
            return self.build_refusal(401)
        self._count_call(key)
        if (request.method, request.path) == ("GET", "/v3/account/usage"):
            return to_json_response(self._to_usage(key), headers=self._build_headers(key))
        act = self._posts.get(request.path)
        if act is None or request.method != "POST":
            return self.build_refusal(404)
        try:
            body = request.parse_json()
            if not isinstance(body, Mapping):
                raise _BadRequestError("the body must be an object")
            result = act(key, body)
        except (ValueError, TypeError, _BadRequestError) as error:
            return self.build_refusal(400, f"Bad Request: {error}")
        except PermissionError:
            return self.build_refusal(402)
        return to_json_response(
            {"requestId": to_uuid(request.body.hex()), **result},
            headers=self._build_headers(key),
        )

    def _search_prospects(self, key: str, body: Body) -> dict[str, Json]:
        pagination, filters = body.get("pagination", {}), body.get("filters")
        if not isinstance(filters, Mapping) or not isinstance(pagination, Mapping):
            raise _BadRequestError("filters must be an object")
        page, size = pagination.get("page", 0), pagination.get("size", 25)
        if not _is_whole(page, 0, 10_000) or not _is_whole(size, 1, 100):
            raise _BadRequestError("pagination.page is from 0 on, pagination.size from 1 to 100")
        matches = self._records.list_prospects(filters)
        chosen = matches[page * size : (page + 1) * size]
        charged = self._charge_credits(key, max(1, -(-len(chosen) // 25)))
        return {
            "results": [self._records.to_outline(*each) for each in chosen],
            "billing": {"creditsCharged": charged, "resultsReturned": len(chosen)},
            "pagination": {"page": page, "size": size, "total": len(matches)},
        }

    def _enrich(self, key: str, body: Body) -> dict[str, Json]:
        ids = _get_list(body, "ids")
        return self._charge_reveal(key, [self._records.find_by_id(id_) for id_ in ids], ids, body)

    def _charge_reveal(
        self, key: str, found: list[CompanyPerson | None], ids: list[Any], body: Body
    ) -> dict[str, Json]:
        reveal = body.get("reveal", ["emails", "phones"])
        if not isinstance(reveal, list) or not reveal or not set(map(str, reveal)) <= set(PRICES):
            raise _BadRequestError("reveal is a list of emails and phones")
        results: list[Json] = []
        bought: list[tuple[str, str, str]] = []
        for who, id_ in zip(found, ids, strict=True):
            result, points = self._records.reveal_person(who, [str(one) for one in reveal])
            results.append({"id": id_, **result} if who is None else result)
            bought += [(key, *point) for point in points]
        new = [point for point in dict.fromkeys(bought) if point not in self._revealed]
        charged = self._charge_credits(key, sum(PRICES[field] for _, _, field in new))
        self._revealed.update(new)
        returned = sum(1 for one in results if isinstance(one, Mapping) and "error" not in one)
        return {
            "results": results,
            "billing": {"creditsCharged": charged, "resultsReturned": returned},
        }

    def _charge_credits(self, key: str, listed: int) -> int:
        if not self._credits.can_pay(key, listed):
            raise PermissionError("no credits")
        return self._credits.charge(key, listed)

    def _to_usage(self, key: str) -> Json:
        used = self._credits.get_used(key)
        total = self._credits.get_limit(key, otherwise=100_000)
        limit, seconds = PLAN["daily"]
        calls = self._count_used(key, "daily", seconds)
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

    def _count_used(self, key: str, window: str, seconds: int) -> int:
        return self._calls[key, window, int(time.monotonic() // seconds)]

    def _count_call(self, key: str) -> None:
        now = {window: int(time.monotonic() // seconds) for window, (_, seconds) in PLAN.items()}
        for window, at in now.items():
            self._calls[key, window, at] += 1
        if len(self._calls) > 10_000:
            over = [place for place in self._calls if place[2] < now[place[1]]]
            for place in over:
                del self._calls[place]

    def _get_window_limit(self, window: str) -> int:
        dial = self._dials.get_settings(NAME)
        plan, seconds = PLAN[window]
        if dial.calls <= 0 or window != self._find_exceeded_window():
            return plan * UNLIMITED_CREDITS
        return max(1, int(dial.calls * seconds / dial.window.total_seconds()))

    def _build_headers(self, key: str) -> dict[str, str]:
        headers: dict[str, str] = {}
        for window, (_, seconds) in PLAN.items():
            used, limit = self._count_used(key, window, seconds), self._get_window_limit(window)
            headers[f"x-rate-limit-{window}"] = str(limit)
            headers[f"x-{window}-requests-left"] = str(max(0, limit - used))
            headers[f"x-{window}-usage"] = str(used)
        return headers


def _get_list(body: Body, name: str) -> list[Any]:
    items = body.get(name)
    if not isinstance(items, list) or not 1 <= len(items) <= MAX_ITEMS:
        raise _BadRequestError(f"{name} must be a list of 1 to {MAX_ITEMS}")
    return items


def _is_whole(value: Any, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


HOSTS = {"lusha.test": build_lusha_handler}
