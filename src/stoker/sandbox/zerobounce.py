"""zerobounce.test: single and batch validation, credits, and the block for who asks too often.

The fixed @example.com addresses are answered as the vendor's test table says and cost nothing.
Other verdicts follow from the address; people of the world are mostly valid.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from typing import Any

from stoker.core.model import Json
from stoker.sandbox.billing import Till, good_key
from stoker.sandbox.dialling import dialled
from stoker.sandbox.dials import Dials
from stoker.sandbox.serving import Asked, Handler, Told, json_told
from stoker.sandbox.tallies import Tallies
from stoker.sandbox.world import World
from stoker.sandbox.zerobounce_verdicts import Verdict, verdict_of

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
