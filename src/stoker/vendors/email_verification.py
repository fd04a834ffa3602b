"""E-mail queries, batches and verdicts, and how long a verdict is good.

An address is verified in its normal form: trimmed, in small letters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from stoker.accounts.contacts import normalize_email
from stoker.accounts.model import EmailStatus
from stoker.base.errors import PermanentError
from stoker.base.jsontools import get_line
from stoker.base.types import Json

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
            raise PermanentError("an address is verified in small letters; see normalize_email")

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
