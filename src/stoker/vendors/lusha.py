"""Lusha (V3): who works at a company, and their work addresses.

Its answers say what was charged. Only e-mail addresses are revealed, never phones, and no third
party's data is bought, so that a price is known before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta

from stoker.accounts.contacts import normalize_email
from stoker.accounts.model import Contact
from stoker.base.errors import (
    ConfigError,
    PermanentError,
    StokerError,
    TransientError,
    UncertainError,
)
from stoker.base.jsontools import get_count, get_line, get_list, get_object, has_list
from stoker.base.retry import (
    MAX_WAIT,
    Quota,
    choose_tightest_quota,
    is_scarce,
    parse_quota,
    parse_retry_after,
)
from stoker.base.types import Json
from stoker.budgets.model import Health, Paid
from stoker.context import TenantContext
from stoker.http.api_client import (
    StatusMeaning,
    VendorApi,
    VendorResponse,
    check_api_key,
    check_health,
    compute_billed_cost,
)
from stoker.http.client import HttpClient, build_http_client
from stoker.http.url import parse_url
from stoker.vendors.table import LushaSettings, get_key

MAX_PEOPLE = 100

CONTACTS_TTL, NO_CONTACTS_TTL = timedelta(days=60), timedelta(days=14)

_SENIORITY_ORDER = (
    "founder", "owner", "c-suite", "partner", "vice president", "vp", "director", "manager",
)  # fmt: skip

_INVALID_CACHED_ANSWER = "the cached answer has another form; it is asked for again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """A person at a company, as the vendor lists it before anything is bought."""

    id: str  # the vendor's
    name: str
    title: str = ""
    seniority: str = ""
    has_email: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class People:
    """The people at a company."""

    people: tuple[Person, ...] = ()

    @property
    def ttl(self) -> timedelta:
        """An empty list is asked for again sooner."""
        return CONTACTS_TTL if self.people else NO_CONTACTS_TTL

    def as_json(self) -> Json:
        """Return the answer as it is cached."""
        return {"people": [asdict(person) for person in self.people]}

    def choose_most_senior(self, most: int) -> tuple[Person, ...]:
        """Return the people whose addresses to buy: with an address, most senior first."""
        reachable = [person for person in self.people if person.has_email]
        return tuple(sorted(reachable, key=_get_seniority_rank)[:most])


@dataclass(frozen=True, slots=True, kw_only=True)
class PeopleQuery:
    """Who works at a company, found by its domain."""

    domain: str
    most: int = 25

    def __post_init__(self) -> None:
        _check_domain(self.domain)
        if not 1 <= self.most <= MAX_PEOPLE:
            raise PermanentError(f"1 to {MAX_PEOPLE} people are found at a time, not {self.most}")

    def as_json(self) -> Json:
        """Return the query as JSON."""
        return {"people_at": self.domain, "titles": [], "most": self.most}

    def decode_answer(self, cached: Json) -> People:
        """Decode a cached answer."""
        if not has_list(cached, "people"):
            raise PermanentError(_INVALID_CACHED_ANSWER)
        people = [
            Person(
                id=get_line(row, "id"),
                name=get_line(row, "name"),
                title=get_line(row, "title"),
                seniority=get_line(row, "seniority"),
                has_email=isinstance(row, dict) and row.get("has_email") is True,
            )
            for row in get_list(cached, "people", most=MAX_PEOPLE)
        ]
        return People(people=tuple(people))


@dataclass(frozen=True, slots=True, kw_only=True)
class RevealedEmails:
    """Addresses by the vendor's id of the person, and the reason for each one withheld."""

    emails: tuple[tuple[str, str], ...] = ()
    withheld: tuple[tuple[str, str], ...] = ()

    @property
    def ttl(self) -> timedelta:
        """An answer without addresses is asked for again sooner."""
        return CONTACTS_TTL if self.emails else NO_CONTACTS_TTL

    def as_json(self) -> Json:
        """Return the answer as it is cached."""
        return {
            "emails": [list(pair) for pair in self.emails],
            "withheld": [list(pair) for pair in self.withheld],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RevealQuery:
    """The work addresses of people found before, by the vendor's ids."""

    ids: tuple[str, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(set(self.ids)) == len(self.ids) <= MAX_PEOPLE or not all(self.ids):
            raise PermanentError(f"1 to {MAX_PEOPLE} people are revealed at a time, each once")

    def as_json(self) -> Json:
        """Return the query as JSON."""
        return {"reveal": sorted(self.ids)}

    def decode_answer(self, cached: Json) -> RevealedEmails:
        """Decode a cached answer."""
        if not has_list(cached, "emails") or not has_list(cached, "withheld"):
            raise PermanentError(_INVALID_CACHED_ANSWER)
        return RevealedEmails(
            emails=tuple(_parse_pairs(get_list(cached, "emails", most=MAX_PEOPLE))),
            withheld=tuple(_parse_pairs(get_list(cached, "withheld", most=MAX_PEOPLE))),
        )


def build_contacts(
    people: Iterable[Person], revealed: RevealedEmails, *, source: str
) -> list[Contact]:
    """Return the people whose addresses were revealed, as contacts."""
    emails = dict(revealed.emails)
    return [
        Contact(
            name=person.name,
            title=person.title,
            seniority=person.seniority,
            email=emails[person.id],
            source=source,
            confidence=0.8,
        )
        for person in people
        if person.id in emails
    ]


def _check_domain(domain: str) -> None:
    if parse_url(f"http://{domain}/").host != domain:
        raise PermanentError("a company is searched by its domain alone, in lower case")


def _get_seniority_rank(person: Person) -> tuple[int, str]:
    text = f"{person.seniority} {person.title}".casefold()
    rank = next(
        (rank for rank, word in enumerate(_SENIORITY_ORDER) if word in text),
        len(_SENIORITY_ORDER),
    )
    return rank, person.id


def _parse_pairs(rows: Iterable[Json]) -> Iterable[tuple[str, str]]:
    for row in rows:
        if not isinstance(row, list | tuple) or len(row) != 2:
            raise PermanentError(_INVALID_CACHED_ANSWER)
        yield str(row[0]), str(row[1])


NAME = "lusha"

DEADLINE = timedelta(seconds=60)

RESULTS_PER_CREDIT = 25

STATUSES: Mapping[int, StatusMeaning] = {
    401: StatusMeaning(ConfigError, "refuses our key; check keys.lusha in the settings"),
    402: StatusMeaning(ConfigError, "says the account has no credits left; buy some"),
    403: StatusMeaning(ConfigError, "has this feature switched off for our plan; check the plan"),
    412: StatusMeaning(PermanentError, "cannot answer this question"),
    451: StatusMeaning(PermanentError, "may not tell, for legal reasons"),
    499: StatusMeaning(UncertainError, "saw us go before it had answered"),
}

QUOTA_WINDOWS: Mapping[str, timedelta] = {
    "daily": MAX_WAIT,
    "hourly": MAX_WAIT,
    "minute": timedelta(minutes=1),
}
"""How long a used-up window lasts, longest first; the headers do not say when it began."""


def build_lusha_api(
    http: HttpClient,
    *,
    key: str,
    base_url: str = LushaSettings.base_url,
    deadline: timedelta = DEADLINE,
) -> VendorApi:
    """Return Lusha's API with this key. Raises ConfigError for an unusable key."""
    return VendorApi(
        http,
        name=NAME,
        base_url=base_url,
        headers={"api_key": check_api_key(NAME, key)},
        deadline=deadline,
        failures=STATUSES,
        judge=_classify_error,
    )


class _LushaConnector:
    """What Lusha's connectors share."""

    name = NAME

    def __init__(self, vendor: VendorApi) -> None:
        self._vendor = vendor

    async def check(self) -> Health:
        return await check_health(lambda: _get_credits_left(self._vendor))


class LushaPeople(_LushaConnector):
    """List people at a company. Reveals nothing personal, and costs little."""

    def price(self, question: PeopleQuery) -> Mapping[str, int]:
        return {"calls": 1, "credits": -(-question.most // RESULTS_PER_CREDIT)}

    async def ask(self, question: PeopleQuery, *, key: str) -> Paid[People]:
        data, left = await _post_query(
            self._vendor,
            "/v3/contacts/prospecting",
            {
                "pagination": {"page": 0, "size": question.most},
                "filters": {
                    "contacts": {"include": {"existingDataPoints": ["work_email"]}},
                    "companies": {"include": {"domains": [question.domain]}},
                },
            },
        )
        found = {
            person.id: person
            for item in get_list(data, "results", most=question.most)
            if (person := _parse_person(item)) is not None
        }
        return Paid(
            answer=People(people=tuple(found.values())),
            cost=_compute_cost(data, reserved=self.price(question)["credits"]),
            quota=left,
        )


class LushaReveal(_LushaConnector):
    """Reveal the work addresses of people found before."""

    def price(self, question: RevealQuery) -> Mapping[str, int]:
        return {"calls": 1, "credits": len(question.ids)}

    async def ask(self, question: RevealQuery, *, key: str) -> Paid[RevealedEmails]:
        # Without these two options it would also reveal phones at five times the price, and buy
        # from third parties at their price.
        body: Json = {"ids": list(question.ids), "reveal": ["emails"], "waterfallEnabled": False}
        data, left = await _post_query(self._vendor, "/v3/contacts/enrich", body)
        emails: dict[str, str] = {}
        withheld: dict[str, str] = {}
        for item in get_list(data, "results", most=MAX_PEOPLE):
            id_ = get_line(item, "id")
            if id_ not in question.ids:
                continue
            if address := _parse_email(item):
                emails.setdefault(id_, address)
            else:
                code = get_line(get_object(item, "error"), "code", longest=60)
                withheld.setdefault(id_, code or "NO_EMAIL")
        return Paid(
            answer=RevealedEmails(emails=tuple(emails.items()), withheld=tuple(withheld.items())),
            cost=_compute_cost(data, reserved=self.price(question)["credits"]),
            quota=left,
        )


async def _post_query(vendor: VendorApi, path: str, body: Json) -> tuple[Json, Quota | None]:
    response = await vendor.post(path, body)
    if not has_list(response.data, "results"):
        raise UncertainError(f"{NAME} returned no results; it may have been charged")
    return response.data, _parse_quota(response.headers)


def _parse_quota(headers: Mapping[str, str]) -> Quota | None:
    """Return what is left according to the headers, where it is little.

    They do not say when a window began, so what is left of a minute has to last for a minute. Of
    longer windows only the end counts: what is left of a day is for tonight.
    """
    quotas = []
    for window, length in QUOTA_WINDOWS.items():
        left = headers.get(f"x-{window}-requests-left", "")
        limit = headers.get(f"x-rate-limit-{window}", "")
        if left.strip() == "0" or (window == "minute" and is_scarce(left, limit=limit)):
            quotas.append(parse_quota(left, lasts=length))
    return choose_tightest_quota(quotas)


def _parse_person(item: Json) -> Person | None:
    id_ = get_line(item, "id")
    name = f"{get_line(item, 'firstName')} {get_line(item, 'lastName')}".strip()
    if not id_ or not name:
        return None
    job = get_object(item, "jobTitle")
    return Person(
        id=id_,
        name=name,
        title=get_line(job, "title"),
        seniority=get_line(job, "seniority"),
        has_email="emails" in get_list(item, "has", most=20),
    )


def _parse_email(item: Json) -> str:
    for each in get_list(item, "emails", most=20):
        try:
            return normalize_email(get_line(each, "email"))
        except PermanentError:
            continue
    return ""


def _compute_cost(data: Json, *, reserved: int) -> Mapping[str, int]:
    charged = get_count(get_object(data, "billing"), "creditsCharged")
    return compute_billed_cost(NAME, charged, reserved=reserved)


def _classify_error(response: VendorResponse) -> StokerError | None:
    """Find the used-up window in the headers: the vendor sends no Retry-After."""
    if response.status != 429:
        return None
    wait = parse_retry_after(response.headers)
    for window, length in QUOTA_WINDOWS.items():
        if wait is None and response.headers.get(f"x-{window}-requests-left") == "0":
            wait = length
    return TransientError(f"{NAME} asked us to retry later (429)", retry_after=wait)


async def _get_credits_left(vendor: VendorApi) -> str:
    credits_ = get_object((await vendor.get("/v3/account/usage")).data, "credits")
    left, total = get_count(credits_, "remaining"), get_count(credits_, "total")
    if left is None:
        return "it takes our key, and does not say what is left"
    return f"{left} credits left" if total is None else f"{left} of {total} credits left"


def build_people(tenant: TenantContext) -> LushaPeople:
    """Build what finds people at a company. Raises ConfigError when Lusha is off."""
    return LushaPeople(tenant.get(_build_api))


def build_reveal(tenant: TenantContext) -> LushaReveal:
    """Build what reveals addresses of people. Raises ConfigError when Lusha is off."""
    return LushaReveal(tenant.get(_build_api))


def _build_api(tenant: TenantContext) -> VendorApi:
    return build_lusha_api(
        tenant.process.get(build_http_client),
        key=get_key(tenant, NAME),
        base_url=tenant.settings.get_vendor(LushaSettings).base_url,
    )
