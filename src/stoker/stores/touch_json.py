"""A whole book of touches as JSON, and back: profiles, plans, what came of them, counters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import date
from typing import Any

from stoker.core.coverage.values import Marked, Outcome, Profile, ProfileStatus
from stoker.core.coverage.writing import plan_from_json, plan_json
from stoker.core.model import Json
from stoker.stores.kept_touches import (
    kept_counters,
    kept_handover,
    kept_mark,
    kept_plan,
    kept_profile,
)
from stoker.stores.sql import moment, moment_text, optional_moment, optional_moment_text
from stoker.stores.touch_book import TouchBook
from stoker.touches import HandOver, Settled


def book_json(book: TouchBook) -> dict[str, Json]:
    """Return everything in a book as JSON has it."""
    return {
        "counters": {name: book.counters[name] for name in sorted(book.counters)},
        "plans": {
            week: {
                "revision": revision,
                "plan": plan_json(plan),
                "settled": settled_json(*book.settled[week]) if week in book.settled else None,
            }
            for week, (plan, revision) in sorted(book.plans.items())
        },
        "profile_puts": book.puts,
        "profiles": [_profile_json(book.people[url]) for url in sorted(book.people)],
        "outcomes": [_mark_json(book.marked[named]) for named in sorted(book.marked)],
        "handovers": [_handover_json(book.handed[named]) for named in sorted(book.handed)],
    }


def book_from_json(said: Mapping[str, Any]) -> TouchBook:
    """Return the book that was written so. Raises ValueError and its kin when it is none."""
    profiles = [kept_profile(_profile(each)) for each in said["profiles"]]
    marks = [kept_mark(_mark(each)) for each in said["outcomes"]]
    left = [kept_handover(_handover(each)) for each in said["handovers"]]
    plans = {
        week: (kept_plan(plan_from_json(each["plan"])), int(each["revision"]))
        for week, each in said["plans"].items()
    }
    if any(plan.week != week or revision < 1 for week, (plan, revision) in plans.items()):
        raise ValueError("a plan under another week's name")
    counters = {name: int(said["counters"][name]) for name in kept_counters(said["counters"])}
    if min(counters.values(), default=0) < 0:
        raise ValueError("a counter below nothing")
    # What is missing was not written yet by the first of this format.
    settled = {week: each.get("settled") for week, each in said["plans"].items()}
    return TouchBook(
        people={each.url: each for each in profiles},
        plans=plans,
        marked={(each.day, each.url): each for each in marks},
        handed={(each.day, each.url): each for each in left},
        counters=Counter(counters),
        settled={week: settled_of(each) for week, each in settled.items() if each is not None},
        puts=int(said.get("profile_puts", 0)),
    )


def settled_json(settled: Settled, revision: int) -> Json:
    """Return what a plan was brought in line with, and the revision it had then."""
    return {
        "on": settled.on.isoformat(),
        "roster": settled.roster,
        "rule": settled.rule,
        "revision": revision,
    }


def settled_of(said: Mapping[str, Any]) -> tuple[Settled, int]:
    """Return what `settled_json` gave."""
    settled = Settled(
        on=date.fromisoformat(said["on"]),
        roster=int(said["roster"]),
        rule=str(said.get("rule", "")),
    )
    return settled, int(said["revision"])


def _profile_json(profile: Profile) -> Json:
    return {
        "url": profile.url,
        "name": profile.name,
        "status": profile.status.value,
        "last_done_at": optional_moment_text(profile.last_done_at),
    }


def _profile(said: Mapping[str, Any]) -> Profile:
    return Profile(
        url=said["url"],
        name=said["name"],
        status=ProfileStatus(said["status"]),
        last_done_at=optional_moment(said["last_done_at"]),
    )


def _mark_json(mark: Marked) -> Json:
    return {
        "day": mark.day.isoformat(),
        "url": mark.url,
        "outcome": mark.outcome.value,
        "marked_at": moment_text(mark.marked_at),
    }


def _mark(said: Mapping[str, Any]) -> Marked:
    return Marked(
        day=date.fromisoformat(said["day"]),
        url=said["url"],
        outcome=Outcome(said["outcome"]),
        marked_at=moment(said["marked_at"]),
    )


def _handover_json(handed: HandOver) -> Json:
    return {
        "day": handed.day.isoformat(),
        "url": handed.url,
        "way": handed.way,
        "at": moment_text(handed.at),
        "refused": handed.refused,
    }


def _handover(said: Mapping[str, Any]) -> HandOver:
    return HandOver(
        day=date.fromisoformat(said["day"]),
        url=said["url"],
        way=said["way"],
        at=moment(said["at"]),
        refused=said["refused"],
    )
