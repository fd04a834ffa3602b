"""Charge a vendor's credits by key: what is left, what a call costs today, taking it.

Every vendor refuses a key that contains the word `wrong`.
"""

from __future__ import annotations

from stoker.sandbox.faults import FaultSettingsTable
from stoker.sandbox.meter import Meter

MAX_KEY_LENGTH = 300


def is_valid_key(key: str, *, prefix: str = "") -> bool:
    return (
        len(prefix) + 4 <= len(key) <= MAX_KEY_LENGTH
        and key.startswith(prefix)
        and "wrong" not in key
    )


def parse_bearer(header: str) -> str:
    scheme, _, key = header.partition(" ")
    return key.strip() if scheme.lower() == "bearer" else ""


class Credits:
    """One vendor's till: credits by key, as the dials say how many there are and what they buy."""

    def __init__(
        self, vendor: str, *, dials: FaultSettingsTable, meter: Meter, unit: str = "credits"
    ) -> None:
        self._vendor, self._dials, self._tallies, self._unit = vendor, dials, meter, unit

    def compute_price(self, listed: int) -> int:
        """Return what something is charged at today whose listed price is given."""
        percent = self._dials.get_settings(self._vendor).price_percent
        return -(-listed * percent // 100)

    def get_used(self, key: str) -> int:
        return self._tallies.get_charged(self._vendor, unit=self._unit, key=key)

    def get_limit(self, key: str, *, otherwise: int) -> int:
        """Return how many a key has in all; `otherwise` when it has any number."""
        granted = self._dials.get_settings(self._vendor).credits
        return max(otherwise, self.get_used(key)) if granted < 0 else granted

    def can_pay(self, key: str, listed: int) -> bool:
        granted = self._dials.get_settings(self._vendor).credits
        return granted < 0 or self.get_used(key) + self.compute_price(listed) <= granted

    def charge(self, key: str, listed: int) -> int:
        cost = self.compute_price(listed)
        if cost:
            self._tallies.charge(self._vendor, cost, unit=self._unit, key=key)
        return cost
