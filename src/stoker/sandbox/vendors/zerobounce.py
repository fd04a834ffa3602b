"""zerobounce.test: batch validation, credits, and the block for too many calls.

The fixed @example.com addresses are answered by the vendor's test table and cost nothing. Other
verdicts follow from the address; people of the world are mostly valid.
"""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stoker.base.types import Json
from stoker.sandbox.billing import Credits, is_valid_key
from stoker.sandbox.faults import FaultSettingsTable, wrap_with_faults
from stoker.sandbox.http import Handler, Request, Response, to_json_response
from stoker.sandbox.meter import Meter
from stoker.sandbox.world.companies import World

_ADDRESS = re.compile(r"[^@\s]{1,64}@[^@\s.]+(?:\.[^@\s.]+)+")
_ROLES = ("info", "sales", "hello", "contact", "enquiry", "admin", "support", "hr")


@dataclass(frozen=True, slots=True)
class Verdict:
    """A status with its closer reason; an unknown one is never charged."""

    status: str
    sub_status: str = ""
    price: int = 1


_NAMED_AFTER_REASON = {
    "do_not_mail": "disposable toxic global_suppression possible_trap role_based "
    "role_based_catch_all",
    "invalid": "does_not_accept_mail failed_syntax_check mailbox_quota_exceeded mailbox_not_found "
    "no_dns_entries possible_typo unroutable_ip_address",
    "unknown": "antispam_system exception_occurred failed_smtp_connection forcible_disconnect "
    "greylisted mail_server_did_not_respond mail_server_temporary_error timeout_exceeded",
    "valid": "leading_period_removed alias_address alternate accept_all",
}

TEST_TABLE: Mapping[str, Verdict] = {
    "invalid": Verdict("invalid", "mailbox_not_found", 0),
    "donotmail": Verdict("do_not_mail", "role_based", 0),
    "unknown": Verdict("unknown", "mail_server_temporary_error", 0),
    "catch_all": Verdict("catch-all", "", 0),
    "free_email": Verdict("valid", "", 0),
    **{name: Verdict(name, "", 0) for name in ("valid", "spamtrap", "abuse")},
    **{
        reason: Verdict(status, reason, 0)
        for status, reasons in _NAMED_AFTER_REASON.items()
        for reason in reasons.split()
    },
}

_PERSON_VERDICTS = (
    (Verdict("valid"), 86),
    (Verdict("invalid", "mailbox_not_found"), 5),
    (Verdict("catch-all"), 5),
    (Verdict("unknown", "greylisted", 0), 3),
    (Verdict("do_not_mail", "ai_agent_mailbox"), 1),
)

_OTHER_VERDICTS = (
    (Verdict("invalid", "mailbox_not_found"), 40),
    (Verdict("valid"), 30),
    (Verdict("catch-all"), 15),
    (Verdict("unknown", "timeout_exceeded", 0), 10),
    (Verdict("abuse"), 2),
    (Verdict("spamtrap"), 1),
    (Verdict("do_not_mail", "disposable"), 2),
)


def find_verdict(world: World, email: str) -> Verdict:
    wanted = email.strip().lower()
    account, _, domain = wanted.rpartition("@")
    if domain == "example.com" and account in TEST_TABLE:
        return TEST_TABLE[account]
    if len(wanted) > 254 or not _ADDRESS.fullmatch(wanted):
        return Verdict("invalid", "failed_syntax_check")
    company = world.find_by_domain(domain)
    if company is None and domain.endswith(".test"):
        return Verdict("invalid", "no_dns_entries")
    draws = world.build_draws("verdict", wanted)
    if world.find_by_email(wanted) is not None:
        if account in _ROLES:
            return (
                Verdict("do_not_mail", "role_based") if draws.draw_bool(0.5) else Verdict("valid")
            )
        return draws.pick_weighted(_PERSON_VERDICTS)
    if company is not None:
        return Verdict("invalid", "mailbox_not_found")
    return draws.pick_weighted(_OTHER_VERDICTS)


NAME = "zerobounce"
MAX_ADDRESSES = 100
BATCHES_A_WINDOW = 5
BLOCK_WINDOWS = 10
NO_KEY = "Invalid API key or your account ran out of credits"


def build_zerobounce_handler(world: World, dials: FaultSettingsTable, meter: Meter) -> Handler:
    vendor = _ZeroBounce(world, dials, meter)
    return wrap_with_faults(
        NAME, vendor.answer, seed=world.seed, dials=dials, meter=meter, refused=_build_refusal
    )


def _build_refusal(status: int, why: str = "") -> Response:
    words = {
        400: NO_KEY,
        401: NO_KEY,
        403: "Forbidden: API Shield",
        429: "Rate limit exceeded. You have been temporarily blocked.",
    }
    return to_json_response(
        {"error": why or words.get(status, "Internal server error")}, status=status
    )


class _ZeroBounce:
    def __init__(self, world: World, dials: FaultSettingsTable, meter: Meter) -> None:
        self._world, self._dials = world, dials
        self._credits = Credits(NAME, dials=dials, meter=meter)
        self._batches: deque[float] = deque()
        self._blocked_until = 0.0

    def answer(self, request: Request) -> Response:
        match request.method, request.path:
            case "GET", "/v2/getcredits":
                return self._answer_credits(request.get_argument("api_key"))
            case "POST", "/v2/validatebatch":
                return self._validate_batch(request)
        return to_json_response({"error": "Not found"}, status=404)

    def _answer_credits(self, key: str) -> Response:
        if not is_valid_key(key):
            return to_json_response({"Credits": "-1"})
        left = self._credits.get_limit(key, otherwise=100_000) - self._credits.get_used(key)
        return to_json_response({"Credits": str(left)})

    def _validate_batch(self, request: Request) -> Response:
        if self._is_blocked():
            return _build_refusal(429)
        try:
            body: Any = request.parse_json()
        except ValueError:
            return _build_refusal(400, "The request body is not valid JSON")
        if not isinstance(body, Mapping):
            return _build_refusal(400, "The request body is not an object")
        key, batch, timeout = body.get("api_key"), body.get("email_batch"), body.get("timeout")
        # A timeout that is a number is answered as if the key were wrong.
        if not isinstance(key, str) or not is_valid_key(key) or not isinstance(timeout, str | None):
            return _refuse_batch(NO_KEY)
        if not isinstance(batch, list) or not batch:
            return _refuse_batch("No emails were sent")
        if len(batch) > MAX_ADDRESSES:
            return _refuse_batch("Too many emails in the batch")
        if not self._credits.can_pay(key, len(batch)):
            return _refuse_batch(NO_KEY)
        return to_json_response(self._to_verdicts(key, batch))

    def _to_verdicts(self, key: str, batch: list[Any]) -> Json:
        verdicts: list[Json] = []
        errors: list[Json] = []
        for item in batch:
            email = item.get("email_address") if isinstance(item, Mapping) else None
            if not isinstance(email, str) or not email:
                errors.append(_build_problem("Missing email_address", ""))
                continue
            verdict = find_verdict(self._world, email)
            self._credits.charge(key, verdict.price)
            verdicts.append(_to_verdict_json(self._world, email, verdict))
        return {"email_batch": verdicts, "errors": errors}

    def _is_blocked(self) -> bool:
        dial = self._dials.get_settings(NAME)
        if dial.calls:
            return False  # the rate is limited by its own setting, or not at all
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


def _refuse_batch(why: str) -> Response:
    return to_json_response({"email_batch": [], "errors": [_build_problem(why, "all")]})


def _build_problem(why: str, email: str) -> Json:
    return {"error": why, "email_address": email}


def _to_verdict_json(world: World, email: str, verdict: Verdict) -> Json:
    account, _, domain = email.rpartition("@")
    known = world.find_by_email(email)
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
        "domain_age_days": str(1000 + world.build_draws("age", domain.lower()).draw_below(8000)),
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


HOSTS = {"zerobounce.test": build_zerobounce_handler}
