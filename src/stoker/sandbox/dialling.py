"""A vendor as its dials make it: slower, stricter or broken, and always the same way again.

What goes wrong with a request follows from the seed, its content and how often that content was
asked, so a rerun meets the same faults and a retry can meet none. Only rates look at a clock.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from datetime import timedelta

from stoker.sandbox.chance import Draws, drawn
from stoker.sandbox.dials import Dial, Dials, Fault
from stoker.sandbox.serving import Asked, Handler, Told, json_told
from stoker.sandbox.tallies import Tallies

Refusal = Callable[[int], Told]
"""How a vendor words a refusal with this status: 429, 500 or 503."""

_CHARGED = frozenset(
    (
        Fault.ERROR_CHARGED,
        Fault.HANG,
        Fault.CLOSE,
        Fault.RESET,
        Fault.TRUNCATED,
        Fault.CUT_JSON,
        Fault.GARBAGE,
        Fault.DRIP,
    )
)


def plain_refusal(status: int) -> Told:
    """Refuse in words that are nobody's in particular."""
    return json_told({"error": {"status": status, "message": "refused"}}, status=status)


def dialled(
    vendor: str,
    answer: Handler,
    *,
    seed: int,
    dials: Dials,
    tallies: Tallies,
    refused: Refusal = plain_refusal,
) -> Handler:
    """Return the vendor's handler as its dials make it. The vendor itself only answers."""
    lately: deque[float] = deque()

    def handled(asked: Asked) -> Told:
        dial = dials.of(vendor)
        if dial.calls > 0 and not _let_through(lately, dial):
            return _busy(refused, dial)
        if dial.status:
            return refused(dial.status)
        if not (dial.faults or dial.latency_low or dial.latency_high):
            return answer(asked)
        content = drawn(seed, asked.method, asked.host, asked.path, asked.search, asked.body.hex())
        draws = Draws(seed, vendor, content, tallies.nth_time(content))
        wait = _latency(draws, dial)
        fault = _fault(draws, dial)
        told = answer(asked) if fault is None or fault in _CHARGED else Told()
        if fault is not None:
            told = _broken(told, fault, dial, refused)
        return told.but(after=(told.after or timedelta(0)) + wait) if wait else told

    return handled


def _let_through(lately: deque[float], dial: Dial) -> bool:
    now, window = time.monotonic(), dial.window.total_seconds()
    while lately and lately[0] <= now - window:
        lately.popleft()
    if len(lately) >= dial.calls:
        return False
    lately.append(now)
    return True


def _busy(refused: Refusal, dial: Dial) -> Told:
    told = refused(429)
    if not dial.retry_after:
        return told
    return told.but(headers={**told.headers, "retry-after": dial.retry_after})


def _latency(draws: Draws, dial: Dial) -> timedelta:
    spread = max(dial.latency_high - dial.latency_low, timedelta(0))
    return dial.latency_low + spread * draws.share()


def _fault(draws: Draws, dial: Dial) -> Fault | None:
    left = draws.share()
    for fault, share in dial.faults.items():
        left -= share
        if left < 0:
            return fault
    return None


def _broken(told: Told, fault: Fault, dial: Dial, refused: Refusal) -> Told:
    match fault:
        case Fault.BUSY:
            return _busy(refused, dial)
        case Fault.UNAVAILABLE:
            return refused(503)
        case Fault.ERROR | Fault.ERROR_CHARGED:
            return refused(500)
        case Fault.HANG:
            return told.but(hang=True)
        case Fault.CLOSE | Fault.REFUSED:
            return told.but(close_after=0)
        case Fault.RESET:
            return told.but(reset=True)
        case Fault.TRUNCATED:
            return told.but(body=told.body[: len(told.body) // 2], lying_length=len(told.body) or 1)
        case Fault.CUT_JSON:
            return told.but(body=told.body[: len(told.body) // 2])
        case Fault.GARBAGE:
            return told.but(body=b"<html>\xff\xfe not what you asked for")
        case Fault.DRIP:
            return told.but(drip=timedelta(milliseconds=300))
