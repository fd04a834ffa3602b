"""What a vendor takes from a key: how much it has left, what a call costs today, taking it.

A key that holds the word `wrong` is refused by every vendor. How a vendor words a refusal is its
own business.
"""

from __future__ import annotations

from stoker.sandbox.faults import Dials
from stoker.sandbox.meter import Tallies

LONGEST_KEY = 300


def good_key(key: str, *, prefix: str = "") -> bool:
    """Say whether a vendor takes this key."""
    return (
        len(prefix) + 4 <= len(key) <= LONGEST_KEY and key.startswith(prefix) and "wrong" not in key
    )


def bearer(header: str) -> str:
    """Return the key of an Authorization header, or an empty text."""
    scheme, _, key = header.partition(" ")
    return key.strip() if scheme.lower() == "bearer" else ""


class Till:
    """One vendor's till: credits by key, as the dials say how many there are and what they buy."""

    def __init__(
        self, vendor: str, *, dials: Dials, tallies: Tallies, unit: str = "credits"
    ) -> None:
        self._vendor, self._dials, self._tallies, self._unit = vendor, dials, tallies, unit

    def costs(self, listed: int) -> int:
        """Return what something is charged at today whose listed price is given."""
        percent = self._dials.of(self._vendor).price_percent
        return -(-listed * percent // 100)

    def used(self, key: str) -> int:
        """Return what this key has used."""
        return self._tallies.charged(self._vendor, unit=self._unit, key=key)

    def limit(self, key: str, *, otherwise: int) -> int:
        """Return how many a key has in all; `otherwise` when it has any number."""
        granted = self._dials.of(self._vendor).credits
        return max(otherwise, self.used(key)) if granted < 0 else granted

    def has(self, key: str, listed: int) -> bool:
        """Say whether a key can pay for something."""
        granted = self._dials.of(self._vendor).credits
        return granted < 0 or self.used(key) + self.costs(listed) <= granted

    def take(self, key: str, listed: int) -> int:
        """Charge a key for something; return what was charged."""
        cost = self.costs(listed)
        if cost:
            self._tallies.charge(self._vendor, cost, unit=self._unit, key=key)
        return cost
