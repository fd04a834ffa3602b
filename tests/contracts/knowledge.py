"""Values for the suites about what connectors said: entities, loads, pages, answers."""

import hashlib
import string
from datetime import UTC, date, datetime, timedelta

from stoker.crawl.model import PageState
from stoker.registry.model import Entity, Load, Reject
from stoker.vendors.model import CachedAnswer

NOW = datetime(2026, 2, 7, 1, 30, tzinfo=UTC)
HOUR = timedelta(hours=1)
MICRO = timedelta(microseconds=1)
PARTS = [*string.ascii_uppercase, "Others"]


def entity(uen="T1", **changes):
    raw = {"uen": uen, "entity_name": changes.get("name", f"{uen} PTE. LTD.")}
    plain = {
        "uen": uen,
        "name": f"{uen} PTE. LTD.",
        "kind": "Local Company",
        "status": "Live Company",
        "live": True,
        "registered_on": date(2015, 3, 1),
        "ssic": "62011",
        "officers": 2,
        "former_names": ("OLD NAME",),
        "raw": raw,
        "digest": hashlib.sha256(repr(sorted(raw.items())).encode()).hexdigest(),
    }
    return Entity(**plain | changes)


def load(part="A", *, release="2026-01-31", began_at=NOW, **changes):
    plain = {"id": f"{release}/{part}", "source": f"{part}.csv", "part": part, "release": release}
    return Load(began_at=began_at, **plain | changes)


def reject(line=1, *, of=None, **changes):
    plain = {"load": (of or load()).id, "line": line, "reason": "no number", "text": "a,b"}
    return Reject(**plain | changes)


def page(url="https://acme.test/", **changes):
    plain = {
        "url": url,
        "status": 200,
        "etag": 'W/"1"',
        "last_modified": "Sat, 07 Feb 2026 01:30:00 GMT",
        "fingerprint": "f" * 32,
        "seen_at": NOW,
        "changed_at": NOW - HOUR,
    }
    return PageState(**plain | changes)


def answer(key="k", **changes):
    plain = {
        "key": key,
        "connector": "tavily",
        "answer": {"results": [{"title": "ünï 🙂", "score": 0.5, "n": None}]},
        "cost": {"credits": 1},
        "at": NOW,
        "expires_at": NOW + HOUR,
    }
    return CachedAnswer(**plain | changes)
