"""The rules of one robots.txt as text: may we ask for this address, and how often.

A file may have thousands of rules, and a night meets thousands of files. So they are kept as the
few bytes they are; of an address, only the rules that can concern it are understood.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from urllib.parse import quote

from protego import Protego

_AS_IT_IS = "A-Za-z0-9_.~/=-"  # stands for itself in addresses and in rules alike
_PATH = re.compile(rf"[a-z]{{1,20}}://[^/?#]*((?:/[{_AS_IT_IS}]*)?)([^#]*)", re.IGNORECASE)
_RULE = re.compile(rf"^[^:\n]*: ((?:/[{_AS_IT_IS}]*)?)([^\n]*)$", re.MULTILINE)
_WORD = re.compile(rf"[{_AS_IT_IS}]+")
_PACE = re.compile(r"^(?:crawl|request)[^\n]*$", re.MULTILINE | re.IGNORECASE)
_INDEX = "index.html"  # who allows it allows the folder it is in


@dataclass(frozen=True, slots=True)
class SiteRules:
    """Lines such as "Disallow: /private", all of them meant for us."""

    text: str

    def allow(self, url: str) -> bool:
        """Say whether these rules let us ask for an address."""
        return bool(_understood(self._concerning(url)).can_fetch(url, "*"))

    def delay(self) -> timedelta | None:
        """Return the longest wait they ask for, bounded to a day."""
        rules = _understood(line[0] for line in _PACE.finditer(self.text))
        waits = []
        if (delay := rules.crawl_delay("*")) is not None:
            waits.append(float(delay))
        if (rate := rules.request_rate("*")) is not None:
            waits.append(rate.seconds / rate.requests)
        if not waits:
            return None
        return timedelta(seconds=min(max(waits), 86_400.0))

    def _concerning(self, url: str) -> Iterator[str]:
        """Yield the rules that can be about this address, going by what stands for itself."""
        found = _PATH.match(url)
        path, rest = (found[1] or "/", found[2]) if found else ("/", url)
        whole = "" if "%" in rest else quote(path + rest, safe="/%=")
        for rule in _RULE.finditer(self.text):
            begins = rule[1].removesuffix(_INDEX)
            near = path.startswith(begins) or (rest and begins.startswith(path))
            if near and (not whole or _can_be_in(whole, rule[2])):
                yield rule[0]


def _can_be_in(whole: str, pattern: str) -> bool:
    """Say whether an address has all the words of a pattern, in whatever order."""
    if not pattern or "%" in pattern or pattern.endswith(_INDEX):
        return True
    return all(word in whole for word in _WORD.findall(pattern))


def _understood(lines: Iterable[str]) -> Protego:
    return Protego.parse("\n".join(["User-agent: *", *lines]))
