"""Whether an email address can be written to: what is asked, what a verifier's word is worth.

An address is looked at in the form it is kept in: trimmed, in small letters. Who is asked, in
which batches, is not known here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from stoker.accounts.contacts import plain_address
from stoker.accounts.model import Verdict
from stoker.base.errors import PermanentError
from stoker.base.jsontools import text_in
from stoker.base.types import Json

MOST_ADDRESSES = 100  # in one batch

VERDICTS: Mapping[str, Verdict] = {
    "valid": Verdict.VALID,
    "invalid": Verdict.INVALID,
    "catch-all": Verdict.CATCH_ALL,
    "unknown": Verdict.UNKNOWN,
    "spamtrap": Verdict.RISKY,
    "abuse": Verdict.RISKY,
    "do_not_mail": Verdict.RISKY,
}
"""What a verifier's statuses mean; one that is new to us says nothing."""

GOOD_FOR: Mapping[Verdict, timedelta] = {
    Verdict.VALID: timedelta(days=90),
    Verdict.INVALID: timedelta(days=180),
    Verdict.RISKY: timedelta(days=180),
    Verdict.CATCH_ALL: timedelta(days=14),
    Verdict.UNKNOWN: timedelta(days=2),
    Verdict.UNVERIFIED: timedelta(0),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """What a verifier said of one address."""

    email: str
    verdict: Verdict
    because: str = ""  # the verifier's closer reason, in its own words

    @property
    def good_for(self) -> timedelta:
        """Mailboxes come and go slowly; what nobody could tell may be told tomorrow."""
        return GOOD_FOR[self.verdict]

    def as_json(self) -> Json:
        """Return it as it is kept."""
        return {"email": self.email, "verdict": self.verdict.value, "because": self.because}


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedBatch:
    """What a verifier said of the addresses of one batch, and of which it said nothing."""

    verified: Mapping[str, Verified]
    unanswered: Mapping[str, str] = field(default_factory=dict)  # and why


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """One address whose verdict somebody wants to know."""

    email: str

    def __post_init__(self) -> None:
        if self.email != plain_address(self.email):
            raise PermanentError("an address is verified in small letters; see plain_address")

    def as_json(self) -> Json:
        """Return what is asked."""
        return {"email": self.email}

    def answered(self, kept: Json) -> Verified:
        """Return a kept answer."""
        said = text_in(kept, "verdict")
        if said not in {verdict.value for verdict in Verdict} or said == Verdict.UNVERIFIED:
            raise PermanentError("what is kept here is no verdict; it is asked for anew")
        return Verified(
            email=self.email, verdict=Verdict(said), because=text_in(kept, "because", longest=100)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Addresses verified in one call."""

    emails: tuple[str, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(set(self.emails)) == len(self.emails) <= MOST_ADDRESSES:
            raise PermanentError(f"a batch has 1 to {MOST_ADDRESSES} addresses, each once")
        for email in self.emails:
            Address(email=email)

    def as_json(self) -> Json:
        """Return what is asked."""
        return {"emails": sorted(self.emails)}


def plain_addresses(texts: Iterable[str]) -> dict[str, str]:
    """Return which texts are addresses, each with the form it is kept in."""
    found = {}
    for text in texts:
        try:
            found[text] = plain_address(text)
        except PermanentError:
            continue
    return found
