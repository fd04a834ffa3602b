"""Log what the sandbox received and charged: last requests, counts, and every vendor's bill.

A charge counts when the vendor would charge, also when its response is then lost: tests compare
ledgers with it. Keys are stored as fingerprints, and secrets in URLs not at all.
"""

from __future__ import annotations

import re
from collections import Counter, OrderedDict, deque
from dataclasses import dataclass
from hashlib import sha256

from stoker.sandbox.http import Request

MAX_LOGGED_REQUESTS = 10_000
_MAX_COUNTED_CONTENTS = 50_000
_SECRET = re.compile(r"(?i)((?:^|&)(?:api_?key|key|token|secret|password)=)[^&]*")


@dataclass(frozen=True, slots=True)
class LoggedRequest:
    number: int
    method: str
    host: str
    target: str
    status: int  # 0: it got no honest answer


class Meter:
    """The sandbox's memory. Bounded, whatever comes."""

    def __init__(self) -> None:
        self.requests = 0
        self.by_host: Counter[str] = Counter()  # vendors by host, all company sites together
        self.by_status: Counter[int] = Counter()
        self._log: deque[LoggedRequest] = deque(maxlen=MAX_LOGGED_REQUESTS)
        self._charges: Counter[tuple[str, str, str]] = Counter()
        self._times: OrderedDict[int, int] = OrderedDict()

    @property
    def log(self) -> list[LoggedRequest]:
        return list(self._log)

    @property
    def charges(self) -> dict[str, dict[str, int]]:
        """What every vendor charged in all, by vendor and unit."""
        totals: dict[str, dict[str, int]] = {}
        for (vendor, _, unit), amount in self._charges.items():
            of_vendor = totals.setdefault(vendor, {})
            of_vendor[unit] = of_vendor.get(unit, 0) + amount
        return totals

    @property
    def charges_by_key(self) -> dict[str, dict[str, dict[str, int]]]:
        """What every vendor charged, by vendor, fingerprint of the key, and unit."""
        split: dict[str, dict[str, dict[str, int]]] = {}
        for (vendor, key, unit), amount in self._charges.items():
            split.setdefault(vendor, {}).setdefault(key, {})[unit] = amount
        return split

    def charge(self, vendor: str, amount: int, *, unit: str = "credits", key: str = "") -> int:
        place = (vendor, compute_fingerprint(key), unit)
        self._charges[place] += amount
        return self._charges[place]

    def get_charged(self, vendor: str, *, unit: str = "credits", key: str | None = None) -> int:
        """Return what a vendor charged: for one key, or for all of them."""
        if key is not None:
            return self._charges[vendor, compute_fingerprint(key), unit]
        return self.charges.get(vendor, {}).get(unit, 0)

    def log_request(self, request: Request, *, group: str, status: int) -> None:
        self.by_host[group] += 1
        self.by_status[status] += 1
        search = _SECRET.sub(r"\1…", request.search) if request.search else ""
        target = f"{request.path}?{search}" if search else request.path
        self._log.append(
            LoggedRequest(request.number, request.method, request.host, target[:500], status)
        )

    def count_request(self, content: int) -> int:
        """Count a request for this content; return how many came before (forgotten after many)."""
        before = self._times.pop(content, 0)
        self._times[content] = before + 1
        if len(self._times) > _MAX_COUNTED_CONTENTS:
            self._times.popitem(last=False)
        return before


def compute_fingerprint(key: str) -> str:
    """Return a public stand-in for a key."""
    return sha256(key.encode("utf-8", "replace")).hexdigest()[:12] if key else "none"
