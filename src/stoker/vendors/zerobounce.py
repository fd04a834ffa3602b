"""ZeroBounce: verify e-mail addresses, a batch in one call.

It does not say what it charged: an address costs one credit unless the verdict is unknown, and that
is how it is counted. A batch whose answer is lost may have been charged and is never sent again by
itself. Its key travels in the body, which is never shown. It blocks callers that ask too often.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from stoker.accounts.contacts import normalize_email
from stoker.accounts.model import EmailStatus
from stoker.base.errors import (
    ConfigError,
    PermanentError,
    StokerError,
    TransientError,
    UncertainError,
)
from stoker.base.jsontools import get_count, get_line, get_list, has_list
from stoker.base.retry import MAX_WAIT, parse_retry_after
from stoker.base.types import Json
from stoker.budgets.model import Health, Paid
from stoker.context import TenantContext
from stoker.http.api_client import (
    StatusMeaning,
    VendorApi,
    VendorResponse,
    check_api_key,
    check_health,
)
from stoker.http.client import HttpClient, build_http_client
from stoker.vendors.table import ZeroBounceSettings, get_key

MAX_ADDRESSES = 100  # in one batch

VERDICTS: Mapping[str, EmailStatus] = {
    "valid": EmailStatus.VALID,
    "invalid": EmailStatus.INVALID,
    "catch-all": EmailStatus.CATCH_ALL,
    "unknown": EmailStatus.UNKNOWN,
    "spamtrap": EmailStatus.RISKY,
    "abuse": EmailStatus.RISKY,
    "do_not_mail": EmailStatus.RISKY,
}
"""What the vendor's statuses mean; one that is not listed means unknown."""

VERDICT_TTL: Mapping[EmailStatus, timedelta] = {
    EmailStatus.VALID: timedelta(days=90),
    EmailStatus.INVALID: timedelta(days=180),
    EmailStatus.RISKY: timedelta(days=180),
    EmailStatus.CATCH_ALL: timedelta(days=14),
    EmailStatus.UNKNOWN: timedelta(days=2),
    EmailStatus.UNVERIFIED: timedelta(0),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EmailVerdict:
    """The verdict on one address."""

    email: str
    verdict: EmailStatus
    reason: str = ""  # the vendor's own sub-status

    @property
    def ttl(self) -> timedelta:
        """Mailboxes change slowly; an unknown one is asked about again soon."""
        return VERDICT_TTL[self.verdict]

    def as_json(self) -> Json:
        """Return the verdict as it is cached."""
        return {"email": self.email, "verdict": self.verdict.value, "because": self.reason}


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchVerdicts:
    """The verdicts on one batch, and the addresses without one."""

    verified: Mapping[str, EmailVerdict]
    unanswered: Mapping[str, str] = field(default_factory=dict)  # and why


@dataclass(frozen=True, slots=True, kw_only=True)
class EmailQuery:
    """One address to be verified."""

    email: str

    def __post_init__(self) -> None:
        if self.email != normalize_email(self.email):
            raise PermanentError("an address is verified in lower case; see normalize_email")

    def as_json(self) -> Json:
        """Return the query as JSON."""
        return {"email": self.email}

    def decode_answer(self, cached: Json) -> EmailVerdict:
        """Decode a cached answer."""
        status = get_line(cached, "verdict")
        if (
            status not in {verdict.value for verdict in EmailStatus}
            or status == EmailStatus.UNVERIFIED
        ):
            raise PermanentError("the cached answer is no verdict; it is asked for again")
        return EmailVerdict(
            email=self.email,
            verdict=EmailStatus(status),
            reason=get_line(cached, "because", longest=100),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class EmailBatch:
    """Addresses verified in one call."""

    emails: tuple[str, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(set(self.emails)) == len(self.emails) <= MAX_ADDRESSES:
            raise PermanentError(f"a batch has 1 to {MAX_ADDRESSES} addresses, each once")
        for email in self.emails:
            EmailQuery(email=email)

    def as_json(self) -> Json:
        """Return the query as JSON."""
        return {"emails": sorted(self.emails)}


def normalize_emails(texts: Iterable[str]) -> dict[str, str]:
    """Return the texts that are addresses, each with its normal form."""
    emails = {}
    for text in texts:
        try:
            emails[text] = normalize_email(text)
        except PermanentError:
            continue
    return emails


NAME = "zerobounce"

DEADLINE = timedelta(seconds=130)  # a batch of a hundred may take 70 seconds

TIMEOUT_SECONDS = "70"  # seconds it may take over a batch; a number instead of a text is refused

STATUSES: Mapping[int, StatusMeaning] = {
    400: StatusMeaning(PermanentError, "does not understand this batch"),
    401: StatusMeaning(
        ConfigError, "refuses our key, or its credits are gone; check keys.zerobounce"
    ),
    402: StatusMeaning(ConfigError, "says the account has no credits left; buy some"),
}

BLOCK_DURATIONS: Mapping[int, timedelta] = {
    # Its shield against too many bad requests, not about our key: it ends by itself, and asking
    # on only prolongs it.
    403: MAX_WAIT,
    429: timedelta(minutes=10),
}
"""How long it blocks callers that asked too often; it does not say so itself."""


class ZeroBounce:
    """Verify addresses, a batch at a time."""

    name = NAME

    def __init__(
        self,
        http: HttpClient,
        *,
        key: str,
        base_url: str = ZeroBounceSettings.base_url,
        deadline: timedelta = DEADLINE,
    ) -> None:
        """Raises ConfigError for an unusable key."""
        self._key = check_api_key(NAME, key)
        self._vendor = VendorApi(
            http,
            name=NAME,
            base_url=base_url,
            headers={},
            deadline=deadline,
            failures=STATUSES,
            judge=_classify_error,
        )

    def price(self, question: EmailBatch) -> Mapping[str, int]:
        # A call is one address here: caps on calls mean verifications, however they are bundled.
        return {"calls": len(question.emails), "credits": len(question.emails)}

    async def ask(self, question: EmailBatch, *, key: str) -> Paid[BatchVerdicts]:
        body: Json = {
            "api_key": self._key,
            "email_batch": [
                {"email_address": email, "ip_address": ""} for email in question.emails
            ],
            "timeout": TIMEOUT_SECONDS,
        }
        data = (await self._vendor.post("/v2/validatebatch", body)).data
        if not has_list(data, "email_batch"):
            raise _to_refusal(data)
        verified, free = _parse_verdicts(data, question)
        problems = _parse_problems(data)
        if not verified and problems:
            raise _to_refusal(data)
        if not verified:
            raise UncertainError(f"{NAME} returned no address; it may have been charged")
        count = len(question.emails)
        return Paid(
            answer=BatchVerdicts(
                verified=verified,
                unanswered={
                    email: problems.get(email, "the vendor returned no verdict on this address")
                    for email in question.emails
                    if email not in verified
                },
            ),
            cost={"calls": count, "credits": count - free},
        )

    async def check(self) -> Health:
        return await check_health(self._get_credits_left)

    async def _get_credits_left(self) -> str:
        data = (await self._vendor.get("/v2/getcredits", {"api_key": self._key})).data
        left = get_count(data, "Credits")
        if left is None:  # it says -1 for a key it does not know
            raise ConfigError(f"{NAME} refuses our key; check keys.zerobounce in the settings")
        return f"{left} credits left"


def _parse_verdicts(data: Json, question: EmailBatch) -> tuple[dict[str, EmailVerdict], int]:
    """Return the verdicts on the addresses asked about, and how many of them were free."""
    asked, verdicts, free = set(question.emails), dict[str, EmailVerdict](), 0
    for item in get_list(data, "email_batch", most=MAX_ADDRESSES):
        email = get_line(item, "address").lower()
        if email in asked and email not in verdicts:
            status = get_line(item, "status", longest=40).lower()
            # Free is what the vendor calls unknown, not what is unknown to us.
            free += status == "unknown"
            verdicts[email] = EmailVerdict(
                email=email,
                verdict=VERDICTS.get(status, EmailStatus.UNKNOWN),
                reason=get_line(item, "sub_status", longest=100),
            )
    return verdicts, free


def _parse_problems(data: Json) -> dict[str, str]:
    return {
        get_line(item, "email_address").lower(): get_line(item, "error", longest=200)
        for item in get_list(data, "errors", most=MAX_ADDRESSES)
    }


def _to_refusal(data: Json) -> StokerError:
    """Return what an answer without verdicts means; its status is 200 whatever it means."""
    text = " ".join([*_parse_problems(data).values(), get_line(data, "error")]).casefold()
    if "api key" in text or "credits" in text:
        return ConfigError(f"{NAME} refuses our key, or its credits are gone; check the account")
    if text.strip():
        return PermanentError(f"{NAME} rejected this batch of addresses")
    return UncertainError(f"{NAME} returned no verdicts; it may have been charged")


def _classify_error(answered: VendorResponse) -> StokerError | None:
    if answered.status == 400 and isinstance(refusal := _to_refusal(answered.data), ConfigError):
        return refusal
    if answered.status not in BLOCK_DURATIONS:
        return None
    wait = parse_retry_after(answered.headers) or BLOCK_DURATIONS[answered.status]
    return TransientError(f"{NAME} blocks us for a while ({answered.status})", retry_after=wait)


def build_verifier(tenant: TenantContext) -> ZeroBounce:
    """Build what verifies addresses. Raises ConfigError when ZeroBounce is off."""
    return ZeroBounce(
        tenant.process.get(build_http_client),
        key=get_key(tenant, NAME),
        base_url=tenant.settings.get_vendor(ZeroBounceSettings).base_url,
    )
