"""The tables of profiles, weekly plans, outcomes, deliveries and counters.

What was planned and what happened stand apart: a plan is replaced when it is repaired, what
happened only grows, so no repair can lose it. A plan's revision moves with either.
"""

from __future__ import annotations

from typing import Any

from stoker.crawl.schema import MAX_URL_BYTES
from stoker.db.table import (
    DATE_TEXT,
    FLAG,
    INT,
    JSON_OBJECT,
    KEEP_LATER,
    KEY,
    ORDERED_TEXT,
    REAL,
    TEXT,
    TIME,
    Column,
    Table,
    enum,
    key,
)
from stoker.touches.model import Delivery, OutcomeMark, Profile, ProfileStatus, TouchOutcome

_URL = Column("url", key(MAX_URL_BYTES))

PROFILES = Table(
    "touch_profiles",
    Profile,
    _URL,
    Column("name", TEXT),
    Column("status", enum(ProfileStatus)),
    Column("last_done_at", TIME, null=True, merge=KEEP_LATER),
    key=["url"],
    since=7,
    what="the profile",
    grants="SELECT, INSERT, UPDATE",
)

PLANS: Table[Any] = Table(
    "touch_plans",
    None,
    Column("week", ORDERED_TEXT),
    Column("revision", INT),
    Column("plan", JSON_OBJECT),
    key=["week"],
    since=7,
    grants="SELECT, INSERT, UPDATE",
    wide=True,
)

TOUCHES: Table[Any] = Table(
    "touches",
    dict,
    Column("week", ORDERED_TEXT, parent=True),
    Column("day", DATE_TEXT),
    _URL,
    Column("name", TEXT),
    Column("at", TIME),
    Column("score", REAL),
    Column("days_since", INT, null=True),
    Column("forced", FLAG),
    Column("probability", REAL),
    Column("handed_at", TIME, null=True),
    key=["week", "day", "url"],
    since=7,
    what="the touch of",
    grants="SELECT, INSERT, DELETE",
)

OUTCOMES = Table(
    "touch_outcomes",
    OutcomeMark,
    Column("day", DATE_TEXT),
    _URL,
    Column("outcome", enum(TouchOutcome)),
    Column("at", TIME, field="marked_at"),
    key=["day", "url"],
    since=7,
    what="the outcome of",
    grants="SELECT, INSERT, UPDATE",
)

DELIVERIES = Table(
    "touch_handovers",
    Delivery,
    Column("day", DATE_TEXT),
    _URL,
    Column("way", TEXT, field="channel"),
    Column("at", TIME),
    Column("refused", TEXT),
    key=["day", "url"],
    since=7,
    what="the delivery of",
    grants="SELECT, INSERT",
)

COUNTERS: Table[Any] = Table(
    "touch_counters",
    None,
    Column("name", KEY),
    Column("used", INT, check="used >= 0"),
    key=["name"],
    since=7,
    what="the counter",
    grants="SELECT, INSERT, UPDATE",
    fill=50,
)

TABLES = (PROFILES, PLANS, TOUCHES, OUTCOMES, DELIVERIES, COUNTERS)
