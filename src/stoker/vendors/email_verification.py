"""Whether an email address can be written to: what is asked, what a verifier's word is worth.

An address is looked at in the form it is kept in: trimmed, in small letters. Who is asked, in
which batches, is not known here.
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
"""What a verifier's statuses mean; one that is new to us says nothing."""

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
    """What a verifier said of one address."""

    email: str
    verdict: EmailStatus
    reason: str = ""  # the verifier's closer reason, in its own words

    @property
    def ttl(self) -> timedelta:
        """Mailboxes come and go slowly; what nobody could tell may be told tomorrow."""
        return VERDICT_TTL[self.verdict]

    def as_json(self) -> Json:
        """Return it as it is kept."""
        return {"email": self.email, "verdict": self.verdict.value, "because": self.reason}


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchVerdicts:
    """What a verifier said of the addresses of one batch, and of which it said nothing."""

    verified: Mapping[str, EmailVerdict]
    unanswered: Mapping[str, str] = field(default_factory=dict)  # and why


@dataclass(frozen=True, slots=True, kw_only=True)
class EmailQuery:
    """One address whose verdict somebody wants to know."""

    email: str

    def __post_init__(self) -> None:
        if self.email != normalize_email(self.email):
            raise PermanentError("an address is verified in small letters; see plain_address")

    def as_json(self) -> Json:
        """Return what is asked."""
        return {"email": self.email}

    def decode_answer(self, kept: Json) -> EmailVerdict:
        """Return a kept answer."""
        said = get_line(kept, "verdict")
        if said not in {verdict.value for verdict in EmailStatus} or said == EmailStatus.UNVERIFIED:
            raise PermanentError("what is kept here is no verdict; it is asked for anew")
        return EmailVerdict(
            email=self.email,
            verdict=EmailStatus(said),
            reason=get_line(kept, "because", longest=100),
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
        """Return what is asked."""
        return {"emails": sorted(self.emails)}


def normalize_emails(texts: Iterable[str]) -> dict[str, str]:
    """Return which texts are addresses, each with the form it is kept in."""
    found = {}
    for text in texts:
        try:
            found[text] = normalize_email(text)
        except PermanentError:
            continue
    return found
