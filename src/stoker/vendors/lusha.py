"""Lusha (V3): who works at a company, their work addresses, and how many they are.

Three needs, one account. It tells what it charged; only addresses are revealed, never phones, and
nobody else's data is bought in, so that a price can be known before.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from stoker.accounts.contacts import plain_address
from stoker.base.errors import (
    ConfigError,
    PermanentError,
    StokerError,
    TransientError,
    UncertainError,
)
from stoker.base.jsontools import has_list, list_in, object_in, text_in, whole_in
from stoker.base.retry import LONGEST_WAIT, Quota, quota, retry_after, scarce, tightest
from stoker.base.types import Json
from stoker.budgets.model import Done, Health
from stoker.http.api_client import Answered, Failure, Vendor, healthy, spent, usable_key
from stoker.http.client import Http
from stoker.vendors.contacts import (
    MOST_PEOPLE,
    CompanyAt,
    CompanyFacts,
    People,
    PeopleAt,
    Person,
    Reveal,
    Revealed,
    staff,
)

NAME = "lusha"

BASE_URL = "https://api.lusha.com"

DEADLINE = timedelta(seconds=60)

RESULTS_A_CREDIT = 25

FAILURES: Mapping[int, Failure] = {
    400: Failure(PermanentError, "does not understand this question"),
    401: Failure(ConfigError, "refuses our key; check keys.lusha in the settings"),
    402: Failure(ConfigError, "says the account has no credits left; buy some"),
    403: Failure(ConfigError, "has this feature switched off for our plan; look at the plan"),
    404: Failure(PermanentError, "knows nothing under this address"),
    412: Failure(PermanentError, "cannot answer this question"),
    451: Failure(PermanentError, "may not tell, for legal reasons"),
    499: Failure(UncertainError, "saw us go before it had answered"),
}

WINDOWS: Mapping[str, timedelta] = {
    "daily": LONGEST_WAIT,
    "hourly": LONGEST_WAIT,
    "minute": timedelta(minutes=1),
}
"""How long a used-up window lasts, longest first; its headers do not say when it began."""


def lusha(
    http: Http, *, key: str, base_url: str = BASE_URL, deadline: timedelta = DEADLINE
) -> Vendor:
    """Return Lusha's API, asked with this key. Raises ConfigError for a key that is none."""
    return Vendor(
        http,
        name=NAME,
        base_url=base_url,
        headers={"api_key": usable_key(NAME, key)},
        deadline=deadline,
        failures=FAILURES,
        judge=_judged,
    )


class LushaPeople:
    """Finds people at a company. Shows nothing personal, and costs little."""

    name = NAME

    def __init__(self, vendor: Vendor) -> None:
        self._vendor = vendor

    def price(self, question: PeopleAt) -> Mapping[str, int]:
        return {"calls": 1, "credits": -(-question.most // RESULTS_A_CREDIT)}

    async def ask(self, question: PeopleAt, *, key: str) -> Done[People]:
        wanted: dict[str, Json] = {"existingDataPoints": ["work_email"]}
        if question.titles:
            wanted["jobTitles"] = list(question.titles)
        data, left = await _asked(
            self._vendor,
            "/v3/contacts/prospecting",
            {
                "pagination": {"page": 0, "size": question.most},
                "filters": {
                    "contacts": {"include": wanted},
                    "companies": {"include": {"domains": [question.domain]}},
                },
            },
        )
        found = {
            person.id: person
            for item in list_in(data, "results", most=question.most)
            if (person := _person(item)) is not None
        }
        return Done(
            answer=People(people=tuple(found.values())),
            cost=_cost(data, promised=self.price(question)["credits"]),
            quota=left,
        )

    async def check(self) -> Health:
        return await healthy(lambda: _left(self._vendor))


class LushaReveal:
    """Reveals the work addresses of people found before."""

    name = NAME

    def __init__(self, vendor: Vendor) -> None:
        self._vendor = vendor

    def price(self, question: Reveal) -> Mapping[str, int]:
        return {"calls": 1, "credits": len(question.ids)}

    async def ask(self, question: Reveal, *, key: str) -> Done[Revealed]:
        # Without these two words it would also reveal phones at five times the price, and buy
        # from others at whatever they want.
        body: Json = {"ids": list(question.ids), "reveal": ["emails"], "waterfallEnabled": False}
        data, left = await _asked(self._vendor, "/v3/contacts/enrich", body)
        emails: dict[str, str] = {}
        withheld: dict[str, str] = {}
        for item in list_in(data, "results", most=MOST_PEOPLE):
            id_ = text_in(item, "id")
            if id_ not in question.ids:
                continue
            if address := _address(item):
                emails.setdefault(id_, address)
            else:
                said = text_in(object_in(item, "error"), "code", longest=60)
                withheld.setdefault(id_, said or "NO_EMAIL")
        return Done(
            answer=Revealed(emails=tuple(emails.items()), withheld=tuple(withheld.items())),
            cost=_cost(data, promised=self.price(question)["credits"]),
            quota=left,
        )

    async def check(self) -> Health:
        return await healthy(lambda: _left(self._vendor))


class LushaCompanies:
    """Tells how many people work at a company."""

    name = NAME

    def __init__(self, vendor: Vendor) -> None:
        self._vendor = vendor

    def price(self, question: CompanyAt) -> Mapping[str, int]:
        return {"calls": 1, "credits": 1}

    async def ask(self, question: CompanyAt, *, key: str) -> Done[CompanyFacts]:
        body: Json = {"companies": [{"clientReferenceId": "1", "domain": question.domain}]}
        data, left = await _asked(self._vendor, "/v3/companies/search-and-enrich", body)
        results = list_in(data, "results", most=1)
        count = object_in(results[0] if results else None, "employeeCount")
        founded = whole_in(results[0] if results else None, "yearFounded")
        return Done(
            answer=CompanyFacts(
                employees=staff(whole_in(count, "exact")),
                employees_low=staff(whole_in(count, "min")),
                employees_high=staff(whole_in(count, "max")),
                founded=founded if founded is not None and 1500 <= founded <= 2200 else None,
            ),
            cost=_cost(data, promised=1),
            quota=left,
        )

    async def check(self) -> Health:
        return await healthy(lambda: _left(self._vendor))


async def _asked(vendor: Vendor, path: str, body: Json) -> tuple[Json, Quota | None]:
    answered = await vendor.post(path, body)
    if not has_list(answered.data, "results"):
        raise UncertainError(f"{NAME} answered without results; it may have been charged")
    return answered.data, _quota(answered.headers)


def _quota(headers: Mapping[str, str]) -> Quota | None:
    """Read what is left from the headers, where it is little.

    When a window began they do not say, so what is left of a minute has to last for a minute. Of
    longer windows only the end counts: what is left of a day is for tonight.
    """
    told = []
    for window, length in WINDOWS.items():
        left = headers.get(f"x-{window}-requests-left", "")
        limit = headers.get(f"x-rate-limit-{window}", "")
        if left.strip() == "0" or (window == "minute" and scarce(left, limit=limit)):
            told.append(quota(left, lasts=length))
    return tightest(told)


def _person(item: Json) -> Person | None:
    id_ = text_in(item, "id")
    name = f"{text_in(item, 'firstName')} {text_in(item, 'lastName')}".strip()
    if not id_ or not name:
        return None
    job = object_in(item, "jobTitle")
    return Person(
        id=id_,
        name=name,
        title=text_in(job, "title"),
        seniority=text_in(job, "seniority"),
        has_email="emails" in list_in(item, "has", most=20),
    )


def _address(item: Json) -> str:
    for each in list_in(item, "emails", most=20):
        try:
            return plain_address(text_in(each, "email"))
        except PermanentError:
            continue
    return ""


def _cost(data: Json, *, promised: int) -> Mapping[str, int]:
    told = whole_in(object_in(data, "billing"), "creditsCharged")
    return spent(NAME, told, promised=promised)


def _judged(answered: Answered) -> StokerError | None:
    """Read from its headers which window is used up: the vendor has no Retry-After."""
    if answered.status != 429:
        return None
    wait = retry_after(answered.headers)
    for window, length in WINDOWS.items():
        if wait is None and answered.headers.get(f"x-{window}-requests-left") == "0":
            wait = length
    return TransientError(f"{NAME} asks us to come back later (429)", retry_after=wait)


async def _left(vendor: Vendor) -> str:
    credits_ = object_in((await vendor.get("/v3/account/usage")).data, "credits")
    left, total = whole_in(credits_, "remaining"), whole_in(credits_, "total")
    if left is None:
        return "it takes our key, and does not say what is left"
    return f"{left} credits left" if total is None else f"{left} of {total} credits left"
