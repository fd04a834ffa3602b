"""What a look at a site is promised as when a person asks for it, and what it may know.

Every such look is one of its own, however often the same site is looked at; what a night's look
counts, once a day, is not decided here.
"""

from __future__ import annotations

from collections.abc import Mapping

from stoker.core.budget import Request

_SITE = 200  # letters of a site in a key; what tells one look from another comes after it


def look_promised(
    site: str, *, connector: str, price: Mapping[str, int], unlike_others: str
) -> Request:
    """Return what is to be promised for a look at a site; `unlike_others` makes it a new one.

    Whatever letters a site is written in, its key can be kept and shown.
    """
    shown = "".join(letter if letter.isprintable() else "?" for letter in site[:_SITE])
    key = f"{connector}/{shown}/{unlike_others}"
    return Request(key=key, connector=connector, amounts=price, account=shown)
