"""ZeroBounce: can these addresses be written to? A batch of them in one call.

It does not tell what it charged: an address costs one credit unless nobody could tell, so that is
how it is counted. A batch whose answer is lost may have been charged and is never sent again by
itself. It wants its key in the body, which is shown nowhere, and blocks those who ask too often.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from stoker.accounts.model import Verdict
from stoker.base.errors import (
    ConfigError,
    PermanentError,
    StokerError,
    TransientError,
    UncertainError,
)
from stoker.base.jsontools import has_list, list_in, text_in, whole_in
from stoker.base.retry import LONGEST_WAIT, retry_after
from stoker.base.types import Json
from stoker.budgets.model import Done, Health
from stoker.http.api_client import Answered, Failure, Vendor, healthy, usable_key
from stoker.http.client import Http
from stoker.vendors.email_verification import (
    MOST_ADDRESSES,
    VERDICTS,
    Batch,
    Verified,
    VerifiedBatch,
)

NAME = "zerobounce"

BASE_URL = "https://api.zerobounce.net"

DEADLINE = timedelta(seconds=130)  # a batch of a hundred may take 70 seconds

PATIENCE = "70"  # seconds it may take over a batch; a number instead of a text is refused

FAILURES: Mapping[int, Failure] = {
    400: Failure(PermanentError, "does not understand this batch"),
    401: Failure(ConfigError, "refuses our key, or its credits are gone; check keys.zerobounce"),
    402: Failure(ConfigError, "says the account has no credits left; buy some"),
}

BLOCKS: Mapping[int, timedelta] = {
    # Its shield against too many bad requests, not a word about our key: it ends by itself, and
    # whoever goes on asking only makes it last.
    403: LONGEST_WAIT,
    429: timedelta(minutes=10),
}
"""How long it keeps those out who asked too often; it does not say so itself."""


class ZeroBounce:
    """Verifies addresses, a batch at a time."""

    name = NAME

    def __init__(
        self, http: Http, *, key: str, base_url: str = BASE_URL, deadline: timedelta = DEADLINE
    ) -> None:
        """Raises ConfigError for a key that is none."""
        self._key = usable_key(NAME, key)
        self._vendor = Vendor(
            http,
            name=NAME,
            base_url=base_url,
            headers={},
            deadline=deadline,
            failures=FAILURES,
            judge=_judged,
        )

    def price(self, question: Batch) -> Mapping[str, int]:
        # A call is one address here: caps on calls mean verifications, however they are bundled.
        return {"calls": len(question.emails), "credits": len(question.emails)}

    async def ask(self, question: Batch, *, key: str) -> Done[VerifiedBatch]:
        body: Json = {
            "api_key": self._key,
            "email_batch": [
                {"email_address": email, "ip_address": ""} for email in question.emails
            ],
            "timeout": PATIENCE,
        }
        data = (await self._vendor.post("/v2/validatebatch", body)).data
        if not has_list(data, "email_batch"):
            raise _refusal(data)
        verified, free = _verdicts(data, question)
        problems = _problems(data)
        if not verified and problems:
            raise _refusal(data)
        if not verified:
            raise UncertainError(f"{NAME} answered about nobody; it may have been charged")
        count = len(question.emails)
        return Done(
            answer=VerifiedBatch(
                verified=verified,
                unanswered={
                    email: problems.get(email, "it said nothing about this address")
                    for email in question.emails
                    if email not in verified
                },
            ),
            cost={"calls": count, "credits": count - free},
        )

    async def check(self) -> Health:
        return await healthy(self._left)

    async def _left(self) -> str:
        data = (await self._vendor.get("/v2/getcredits", {"api_key": self._key})).data
        left = whole_in(data, "Credits")
        if left is None:  # it says -1 for a key it does not know
            raise ConfigError(f"{NAME} refuses our key; check keys.zerobounce in the settings")
        return f"{left} credits left"


def _verdicts(data: Json, question: Batch) -> tuple[dict[str, Verified], int]:
    """Return what was said of the addresses asked about, and how many of them cost nothing."""
    asked, found, free = set(question.emails), dict[str, Verified](), 0
    for item in list_in(data, "email_batch", most=MOST_ADDRESSES):
        email = text_in(item, "address").lower()
        if email in asked and email not in found:
            status = text_in(item, "status", longest=40).lower()
            # Free is what the vendor calls unknown, not what is unknown to us.
            free += status == "unknown"
            found[email] = Verified(
                email=email,
                verdict=VERDICTS.get(status, Verdict.UNKNOWN),
                because=text_in(item, "sub_status", longest=100),
            )
    return found, free


def _problems(data: Json) -> dict[str, str]:
    return {
        text_in(item, "email_address").lower(): text_in(item, "error", longest=200)
        for item in list_in(data, "errors", most=MOST_ADDRESSES)
    }


def _refusal(data: Json) -> StokerError:
    """Return what an answer without any verdict means; it says 200 whatever it means."""
    said = " ".join([*_problems(data).values(), text_in(data, "error")]).casefold()
    if "api key" in said or "credits" in said:
        return ConfigError(f"{NAME} refuses our key, or its credits are gone; look at the account")
    if said.strip():
        return PermanentError(f"{NAME} does not take this batch of addresses")
    return UncertainError(f"{NAME} gave an answer without verdicts; it may have been charged")


def _judged(answered: Answered) -> StokerError | None:
    if answered.status == 400 and isinstance(said := _refusal(answered.data), ConfigError):
        return said
    if answered.status not in BLOCKS:
        return None
    wait = retry_after(answered.headers) or BLOCKS[answered.status]
    return TransientError(f"{NAME} keeps us out for a while ({answered.status})", retry_after=wait)
