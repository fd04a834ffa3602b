"""zerobounce.test: single and batch validation, credits, and the block for who asks too often.

The fixed @example.com addresses are answered as the vendor's test table says and cost nothing.
Other verdicts follow from the address; people of the world are mostly valid.

What the make-believe verifier says of an address, and what that costs.

The vendor's fixed test addresses, then people of the world, then everybody else by chance.
"""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stoker.base.types import Json
from stoker.sandbox.billing import Till, good_key
from stoker.sandbox.faults import Dials, dialled
from stoker.sandbox.http import Asked, Handler, Told, json_told
from stoker.sandbox.meter import Tallies
from stoker.sandbox.world.companies import World

_ADDRESS = re.compile(r"[^@\s]{1,64}@[^@\s.]+(?:\.[^@\s.]+)+")

_ROLES = ("info", "sales", "hello", "contact", "enquiry", "admin", "support", "hr")


@dataclass(frozen=True, slots=True)
class Verdict:
    """A status with its closer reason; an unknown one is never charged."""

    status: str
    sub_status: str = ""
    price: int = 1


def _free(status: str, sub_status: str = "") -> Verdict:
    return Verdict(status, sub_status, 0)


TEST_TABLE: Mapping[str, Verdict] = {
    "disposable": _free("do_not_mail", "disposable"),
    "invalid": _free("invalid", "mailbox_not_found"),
    "valid": _free("valid"),
    "toxic": _free("do_not_mail", "toxic"),
    "donotmail": _free("do_not_mail", "role_based"),
    "spamtrap": _free("spamtrap"),
    "abuse": _free("abuse"),
    "unknown": _free("unknown", "mail_server_temporary_error"),
    "catch_all": _free("catch-all"),
    "antispam_system": _free("unknown", "antispam_system"),
    "does_not_accept_mail": _free("invalid", "does_not_accept_mail"),
    "exception_occurred": _free("unknown", "exception_occurred"),
    "failed_smtp_connection": _free("unknown", "failed_smtp_connection"),
    "failed_syntax_check": _free("invalid", "failed_syntax_check"),
    "forcible_disconnect": _free("unknown", "forcible_disconnect"),
    "global_suppression": _free("do_not_mail", "global_suppression"),
    "greylisted": _free("unknown", "greylisted"),
    "leading_period_removed": _free("valid", "leading_period_removed"),
    "mail_server_did_not_respond": _free("unknown", "mail_server_did_not_respond"),
    "mail_server_temporary_error": _free("unknown", "mail_server_temporary_error"),
    "mailbox_quota_exceeded": _free("invalid", "mailbox_quota_exceeded"),
    "mailbox_not_found": _free("invalid", "mailbox_not_found"),
    "no_dns_entries": _free("invalid", "no_dns_entries"),
    "possible_trap": _free("do_not_mail", "possible_trap"),
    "possible_typo": _free("invalid", "possible_typo"),
    "role_based": _free("do_not_mail", "role_based"),
    "role_based_catch_all": _free("do_not_mail", "role_based_catch_all"),
    "timeout_exceeded": _free("unknown", "timeout_exceeded"),
    "unroutable_ip_address": _free("invalid", "unroutable_ip_address"),
    "free_email": _free("valid"),
    "alias_address": _free("valid", "alias_address"),
    "alternate": _free("valid", "alternate"),
    "accept_all": _free("valid", "accept_all"),
}

_OF_PEOPLE = (
    (Verdict("valid"), 86),
    (Verdict("invalid", "mailbox_not_found"), 5),
    (Verdict("catch-all"), 5),
    (_free("unknown", "greylisted"), 3),
    (Verdict("do_not_mail", "ai_agent_mailbox"), 1),
)

_OF_OTHERS = (
    (Verdict("invalid", "mailbox_not_found"), 40),
    (Verdict("valid"), 30),
    (Verdict("catch-all"), 15),
    (_free("unknown", "timeout_exceeded"), 10),
    (Verdict("abuse"), 2),
    (Verdict("spamtrap"), 1),
    (Verdict("do_not_mail", "disposable"), 2),
)


def verdict_of(world: World, email: str) -> Verdict:
    """Return what is said of an address; letters in upper case make no difference."""
    wanted = email.strip().lower()
    account, _, domain = wanted.rpartition("@")
    if domain == "example.com" and account in TEST_TABLE:
        return TEST_TABLE[account]
    if len(wanted) > 254 or not _ADDRESS.fullmatch(wanted):
        return Verdict("invalid", "failed_syntax_check")
    company = world.by_domain(domain)
    if company is None and domain.endswith(".test"):
        return Verdict("invalid", "no_dns_entries")
    draws = world.draws("verdict", wanted)
    if world.by_email(wanted) is not None:
        if account in _ROLES:
            return Verdict("do_not_mail", "role_based") if draws.chance(0.5) else Verdict("valid")
        return draws.weighted(_OF_PEOPLE)
    if company is not None:
        return Verdict("invalid", "mailbox_not_found")
    return draws.weighted(_OF_OTHERS)


NAME = "zerobounce"

MOST_ADDRESSES = 100

BATCHES_A_WINDOW = 5

BLOCK_WINDOWS = 10

NO_KEY = "Invalid API key or your account ran out of credits"


def zerobounce(world: World, dials: Dials, tallies: Tallies) -> Handler:
    """Return the vendor's handler."""
    vendor = _ZeroBounce(world, dials, tallies)
    return dialled(
        NAME, vendor.answer, seed=world.seed, dials=dials, tallies=tallies, refused=_refused
    )


def _refused(status: int, why: str = "") -> Told:
    words = {
        400: NO_KEY,
        401: NO_KEY,
        403: "Forbidden: API Shield",
        429: "Rate limit exceeded. You have been temporarily blocked.",
    }
    return json_told({"error": why or words.get(status, "Internal server error")}, status=status)


class _ZeroBounce:
    def __init__(self, world: World, dials: Dials, tallies: Tallies) -> None:
        self._world, self._dials = world, dials
        self._till = Till(NAME, dials=dials, tallies=tallies)
        self._batches: deque[float] = deque()
        self._blocked_until = 0.0

    def answer(self, asked: Asked) -> Told:
        match asked.method, asked.path:
            case "GET", "/v2/getcredits":
                return self._credits(asked.argument("api_key"))
            case "GET", "/v2/validate":
                return self._one(asked)
            case "POST", "/v2/validatebatch":
                return self._batch(asked)
        return json_told({"error": "Not found"}, status=404)

    def _credits(self, key: str) -> Told:
        if not good_key(key):
            return json_told({"Credits": "-1"})
        left = self._till.limit(key, otherwise=100_000) - self._till.used(key)
        return json_told({"Credits": str(left)})

    def _one(self, asked: Asked) -> Told:
        key, email = asked.argument("api_key"), asked.argument("email")
        if not good_key(key) or not self._till.has(key, 1):
            return _refused(200, NO_KEY)
        if not email:
            return _refused(200, "Missing parameter: email")
        verdict = verdict_of(self._world, email)
        self._till.take(key, verdict.price)
        return json_told(_described(self._world, email, verdict))

    def _batch(self, asked: Asked) -> Told:
        if self._blocked():
            return _refused(429)
        try:
            body: Any = asked.json()
        except ValueError:
            return _refused(400, "The request body is not valid JSON")
        if not isinstance(body, Mapping):
            return _refused(400, "The request body is not an object")
        key, batch, timeout = body.get("api_key"), body.get("email_batch"), body.get("timeout")
        # A timeout that is a number is answered as if the key were wrong.
        if not isinstance(key, str) or not good_key(key) or not isinstance(timeout, str | None):
            return json_told({"email_batch": [], "errors": [_problem(NO_KEY, "all")]})
        if not isinstance(batch, list) or not batch:
            return json_told(
                {"email_batch": [], "errors": [_problem("No emails were sent", "all")]}
            )
        if len(batch) > MOST_ADDRESSES:
            return json_told(
                {"email_batch": [], "errors": [_problem("Too many emails in the batch", "all")]}
            )
        if not self._till.has(key, len(batch)):
            return json_told({"email_batch": [], "errors": [_problem(NO_KEY, "all")]})
        return json_told(self._validated(key, batch))

    def _validated(self, key: str, batch: list[Any]) -> Json:
        told: list[Json] = []
        errors: list[Json] = []
        for item in batch:
            email = item.get("email_address") if isinstance(item, Mapping) else None
            if not isinstance(email, str) or not email:
                errors.append(_problem("Missing email_address", ""))
                continue
            verdict = verdict_of(self._world, email)
            self._till.take(key, verdict.price)
            told.append(_described(self._world, email, verdict))
        return {"email_batch": told, "errors": errors}

    def _blocked(self) -> bool:
        dial = self._dials.of(NAME)
        if dial.calls:
            return False  # the rate is somebody else's business: a dial of its own, or lifted
        now, window = time.monotonic(), dial.window.total_seconds()
        if now < self._blocked_until:
            return True
        while self._batches and self._batches[0] <= now - window:
            self._batches.popleft()
        if len(self._batches) >= BATCHES_A_WINDOW:
            self._blocked_until = now + BLOCK_WINDOWS * window
            return True
        self._batches.append(now)
        return False


def _problem(why: str, email: str) -> Json:
    return {"error": why, "email_address": email}


def _described(world: World, email: str, verdict: Verdict) -> Json:
    account, _, domain = email.rpartition("@")
    known = world.by_email(email)
    person = known[1] if known else None
    found = verdict.status not in ("invalid", "unknown")
    return {
        "address": email,
        "status": verdict.status,
        "sub_status": verdict.sub_status,
        "free_email": domain.lower() in ("gmail.com", "yahoo.com", "hotmail.com", "outlook.com"),
        "did_you_mean": None,
        "account": account or None,
        "domain": domain or None,
        "domain_age_days": str(1000 + world.draws("age", domain.lower()).below(8000)),
        "active_in_days": None,
        "smtp_provider": "example" if found else "",
        "mx_found": "true" if found else "false",
        "mx_record": f"mx.{domain}" if found else "",
        "firstname": person.first_name if person else None,
        "lastname": person.last_name if person else None,
        "gender": None,
        "country": None,
        "region": None,
        "city": None,
        "zipcode": None,
        "processed_at": "2026-11-16 02:00:00.000",
    }
