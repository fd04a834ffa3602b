"""Fault settings: how slow, how strict, how broken each vendor is; and applying them to a handler.

Settings are read at every request and can change while the sandbox runs; `sites` means all company
sites. The fault of a request follows from the seed, its content and how often that content was
requested, so a rerun meets the same faults and a retry can meet none. Only rates use a clock.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from enum import StrEnum

from stoker.base.errors import ConfigError
from stoker.sandbox.http import Handler, Request, Response, to_json_response
from stoker.sandbox.meter import Meter
from stoker.sandbox.random import Draws, draw_number

SITES = "sites"
_NONE = timedelta(0)


class Fault(StrEnum):
    """What can go wrong with a vendor's answer. Those that say so happen after it was charged."""

    BUSY = "busy"  # 429, nothing done
    UNAVAILABLE = "unavailable"  # 503, nothing done
    ERROR = "error"  # 500, nothing done
    ERROR_CHARGED = "error_charged"  # 500, after the charge
    HANG = "hang"  # charged, and no answer ever
    CLOSE = "close"  # charged, and the connection closes without a byte
    RESET = "reset"  # charged, and the connection is reset
    TRUNCATED = "truncated"  # charged, and the answer stops half-way
    CUT_JSON = "cut_json"  # charged, and the JSON is whole on the wire but ends too early
    GARBAGE = "garbage"  # charged, and the answer is no JSON
    DRIP = "drip"  # charged, and the answer comes byte by byte
    REFUSED = "refused"  # the connection closes before anything was done


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultSettings:
    latency_low: timedelta = _NONE
    latency_high: timedelta = _NONE
    calls: int = 0  # how many calls per window are let through; 0 is any number
    window: timedelta = timedelta(minutes=1)
    retry_after: str = ""  # what a 429 says in Retry-After; no header when empty
    credits: int = -1  # how many a key has; -1 is any number
    price_percent: int = 100  # what is charged, against what the vendor's page says
    night: int = 0  # which night it is: sites change from night to night
    status: int = 0  # what every call is refused with, in the vendor's words; 0 is not at all
    races: float = 0  # how often a write to the CRM meets another one and loses
    away: int = 0  # 1: the CRM's database is away; 2: it goes in the middle of a call
    apps: str = "crm"  # what is installed in the CRM: crm, sale, account; none is nothing
    leads: int = 0  # 1: the CRM's option "Leads" is on
    required: str = ""  # fields that people added there and require, e.g. crm.lead.x_channel
    language: str = ""  # of the messages of the CRM's database, e.g. de
    refuses: float = 0  # how often the model declines to answer
    # 1: the model does what a text it reads tells it to; 2: it files any words in any field
    obeys: int = 0
    faults: Mapping[Fault, float] = field(default_factory=dict)  # how often, 0 to 1


class FaultSettingsTable:
    """The fault settings of all vendors. A change applies from the next request on.

    `vendors` are the names that may be set; any name when it is empty.
    """

    def __init__(
        self,
        settings: Mapping[str, str | float | timedelta] | None = None,
        *,
        vendors: Collection[str] | None = None,
    ) -> None:
        self._vendors = vendors
        self._settings: dict[str, FaultSettings] = {}
        for name, value in (settings or {}).items():
            self.set_value(name, value)

    def get_settings(self, vendor: str) -> FaultSettings:
        return self._settings.get(vendor, _DEFAULTS)

    def set_value(self, name: str, value: str | float | timedelta) -> None:
        """Set `vendor.dial` or `vendor.fault.kind`; ConfigError when it is none or makes no sense.

        `vendor.latency` sets both of its ends.
        """
        vendor, _, dial = name.partition(".")
        if not vendor or not dial:
            raise ConfigError(f"{name!r} is no dial; write it as vendor.dial, e.g. tavily.calls")
        if self._vendors is not None and vendor not in self._vendors:
            known = ", ".join(sorted(self._vendors))
            raise ConfigError(f"there are no dials of {vendor[:40]!r}; there are those of {known}")
        before = self.get_settings(vendor)
        if dial.startswith("fault."):
            kind = _parse_fault(dial.removeprefix("fault."))
            share = _parse_share(name, value)
            self._settings[vendor] = replace(before, faults={**before.faults, kind: share})
        elif dial == "latency":
            wait = _parse_duration(name, value)
            self._settings[vendor] = replace(before, latency_low=wait, latency_high=wait)
        elif dial in _READERS:
            read = _READERS[dial](name, value)
            self._settings[vendor] = replace(before, **{dial: read})  # type: ignore[arg-type]
        else:
            raise ConfigError(
                f"{dial!r} is no dial; there are {', '.join(sorted(_READERS))}, latency and fault.*"
            )

    def list_changed(self) -> dict[str, dict[str, str]]:
        """Return every dial that was turned, as it would be typed."""
        return {vendor: _to_typed_values(dial) for vendor, dial in sorted(self._settings.items())}


_DEFAULTS = FaultSettings()


def _parse_duration(name: str, value: str | float | timedelta) -> timedelta:
    if isinstance(value, timedelta):
        return value
    text = str(value).strip().lower()
    unit = 0.001 if text.endswith("ms") else 1.0
    seconds = _parse_float(name, text.removesuffix("ms").removesuffix("s")) * unit
    if not 0 <= seconds <= 3600:
        raise ConfigError(f"{name} is from 0 to 3600 seconds, e.g. 200ms or 1.5s, not {value!r}")
    return timedelta(seconds=seconds)


def _parse_float(name: str, value: object) -> float:
    try:
        return float(str(value))
    except ValueError as error:
        raise ConfigError(f"{name} is a number, not {value!r}") from error


def _parse_int(name: str, value: str | float | timedelta) -> int:
    number = _parse_float(name, value)
    if not (number.is_integer() and -1 <= number <= 10**12):
        raise ConfigError(f"{name} is a whole number from -1 on, not {value!r}")
    return int(number)


def _parse_share(name: str, value: str | float | timedelta) -> float:
    share = _parse_float(name, value)
    if not 0 <= share <= 1:
        raise ConfigError(f"{name} is how often it happens, from 0 to 1, not {value!r}")
    return share


def _parse_text(_: str, value: str | float | timedelta) -> str:
    return " ".join(str(value).split())[:200]


def _parse_fault(kind: str) -> Fault:
    try:
        return Fault(kind)
    except ValueError as error:
        raise ConfigError(f"{kind!r} is no fault; there are {', '.join(Fault)}") from error


_PARSERS = {
    "timedelta": _parse_duration,
    "int": _parse_int,
    "str": _parse_text,
    "float": _parse_share,
}
_READERS = {
    each.name: _PARSERS[each.type] for each in fields(FaultSettings) if each.type in _PARSERS
}
"""How a typed value of each dial is read: by what the dial is."""


def _to_typed_values(dial: FaultSettings) -> dict[str, str]:
    shown: dict[str, str] = {}
    for each in fields(FaultSettings):
        value = getattr(dial, each.name)
        if each.name == "faults":
            shown |= {f"fault.{kind}": f"{share:g}" for kind, share in sorted(value.items())}
        elif value != getattr(_DEFAULTS, each.name):
            shown[each.name] = (
                f"{value.total_seconds():g}s" if isinstance(value, timedelta) else str(value)
            )
    return shown


BuildRefusal = Callable[[int], Response]
"""How a vendor words a refusal with this status: 429, 500 or 503."""

_FREE_FAULTS = frozenset({Fault.BUSY, Fault.UNAVAILABLE, Fault.ERROR, Fault.REFUSED})


def build_plain_refusal(status: int) -> Response:
    return to_json_response({"error": {"status": status, "message": "refused"}}, status=status)


def wrap_with_faults(
    vendor: str,
    answer: Handler,
    *,
    seed: int,
    dials: FaultSettingsTable,
    meter: Meter,
    refused: BuildRefusal = build_plain_refusal,
) -> Handler:
    """Return the vendor's handler as its dials make it. The vendor itself only answers."""
    lately: deque[float] = deque()

    def handle(request: Request) -> Response:
        dial = dials.get_settings(vendor)
        if dial.calls > 0 and not _is_allowed(lately, dial):
            return _build_busy_response(refused, dial)
        if dial.status:
            return refused(dial.status)
        if not (dial.faults or dial.latency_low or dial.latency_high):
            return answer(request)
        content = draw_number(
            seed, request.method, request.host, request.path, request.search, request.body.hex()
        )
        draws = Draws(seed, vendor, content, meter.count_request(content))
        wait = _draw_latency(draws, dial)
        fault = _draw_fault(draws, dial)
        response = Response() if fault in _FREE_FAULTS else answer(request)
        if fault is not None:
            response = _apply_fault(response, fault, dial, refused)
        return (
            response.replace_fields(after=(response.after or timedelta(0)) + wait)
            if wait
            else response
        )

    return handle


def _is_allowed(lately: deque[float], dial: FaultSettings) -> bool:
    now, window = time.monotonic(), dial.window.total_seconds()
    while lately and lately[0] <= now - window:
        lately.popleft()
    if len(lately) >= dial.calls:
        return False
    lately.append(now)
    return True


def _build_busy_response(refused: BuildRefusal, dial: FaultSettings) -> Response:
    response = refused(429)
    if not dial.retry_after:
        return response
    return response.replace_fields(headers={**response.headers, "retry-after": dial.retry_after})


def _draw_latency(draws: Draws, dial: FaultSettings) -> timedelta:
    spread = max(dial.latency_high - dial.latency_low, timedelta(0))
    return dial.latency_low + spread * draws.draw_share()


def _draw_fault(draws: Draws, dial: FaultSettings) -> Fault | None:
    left = draws.draw_share()
    for fault, share in dial.faults.items():
        left -= share
        if left < 0:
            return fault
    return None


def _apply_fault(
    response: Response, fault: Fault, dial: FaultSettings, refused: BuildRefusal
) -> Response:
    match fault:
        case Fault.BUSY:
            return _build_busy_response(refused, dial)
        case Fault.UNAVAILABLE:
            return refused(503)
        case Fault.ERROR | Fault.ERROR_CHARGED:
            return refused(500)
        case Fault.HANG:
            return response.replace_fields(hang=True)
        case Fault.CLOSE | Fault.REFUSED:
            return response.replace_fields(close_after=0)
        case Fault.RESET:
            return response.replace_fields(reset=True)
        case Fault.TRUNCATED:
            return response.replace_fields(
                body=response.body[: len(response.body) // 2], lying_length=len(response.body) or 1
            )
        case Fault.CUT_JSON:
            return response.replace_fields(body=response.body[: len(response.body) // 2])
        case Fault.GARBAGE:
            return response.replace_fields(body=b"<html>\xff\xfe not what you asked for")
        case Fault.DRIP:
            return response.replace_fields(drip=timedelta(milliseconds=300))
