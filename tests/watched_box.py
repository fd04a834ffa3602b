"""A make-believe internet that remembers which question of which key was charged, how often."""

import json
import re
from collections import Counter
from hashlib import sha256

from stoker.sandbox.meter import compute_fingerprint
from stoker.sandbox.server import HANDLERS

_AN_ADDRESS = re.compile(rb"[\w.+-]+@[\w.-]+")


def reticent(maker):
    """Return a search whose pages name no e-mail address: another vendor is asked for one."""

    def made(*given):
        handler = maker(*given)

        def handled(asked):
            told = handler(asked)
            return told.replace_fields(body=_AN_ADDRESS.sub(b"", told.body))

        return handled

    return made


RETICENT = {**HANDLERS, "tavily.test": reticent(HANDLERS["tavily.test"])}


class Watch:
    """Looks over the vendors' shoulders. Give `vendors` to a sandbox, then read `paid`."""

    def __init__(self):
        self.paid = Counter()  # by vendor, fingerprint of the key, and question

    @property
    def vendors(self):
        return {host: self._watched(maker) for host, maker in RETICENT.items()}

    def twice(self, key):
        """Return what a key was charged for more than once."""
        mark = compute_fingerprint(key)
        return [
            f"{vendor} was paid {times} times for {question}"
            for (vendor, whose, question), times in self.paid.items()
            if whose == mark and times > 1
        ]

    def _watched(self, maker):
        def made(world, dials, tallies):
            bill = _Bill(tallies)
            handler = maker(world, dials, bill)

            def handled(asked):
                bill.noted.clear()
                told = handler(asked)
                for vendor, key in set(bill.noted):
                    for question in _questions(asked):
                        self.paid[vendor, compute_fingerprint(key), question] += 1
                return told

            return handled

        return made


class _Bill:
    """A vendor's own tallies, and who was charged by the call under way."""

    def __init__(self, tallies):
        self._tallies = tallies
        self.noted = []

    def __getattr__(self, name):
        return getattr(self._tallies, name)

    def charge(self, vendor, amount, *, unit="credits", key=""):
        if vendor != "odoo":  # a CRM may be told anything twice
            self.noted.append((vendor, key))
        return self._tallies.charge(vendor, amount, unit=unit, key=key)


def _questions(asked):
    """Return what is asked: every address by itself, everything else as it stands."""
    if asked.host == "zerobounce.test" and asked.body:
        return [each["email_address"] for each in json.loads(asked.body)["email_batch"]]
    return [f"{asked.path} {sha256(asked.body).hexdigest()[:12]}"]
