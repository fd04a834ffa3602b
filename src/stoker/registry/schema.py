"""The tables of the public register, which is the same for all tenants.

What is known about an entity stands beside it, in `registry_seen`: when it changed, whether it is
gone, and in which release it was last seen. A new release in which an entity is the same then
touches these few bytes and not the entity, finding what is gone is one walk along a narrow table,
and a batch is compared without reading what it would replace.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from stoker.base.errors import PermanentError
from stoker.db.table import (
    DATE,
    FLAG,
    INT,
    JSON_OBJECT,
    JSON_TEXTS,
    KEY,
    ORDERED_TEXT,
    REPEATED_TIME,
    TEXT,
    TIME,
    Column,
    Index,
    Table,
)
from stoker.registry.model import Entity, IndustryCode, Load, LoadCount, Reject

MAX_SSIC_LENGTH = 125  # characters; rows are found by it

LOADS = Table(
    "registry_loads",
    Load,
    Column("id", KEY),
    Column("release", KEY),
    Column("part", TEXT),
    Column("source", TEXT),
    Column("began_at", TIME),
    Column("ended_at", TIME, null=True),
    Column("new_rows", INT, field="count.new"),
    Column("changed_rows", INT, field="count.changed"),
    Column("same_rows", INT, field="count.same"),
    Column("rejected_rows", INT, field="count.rejected"),
    Column("gone_rows", INT, field="count.gone"),
    Column("last_reject", INT, parent=True),
    key=["id"],
    nested={"count": LoadCount},
    since=5,
    what="the load",
    grants="SELECT, INSERT, UPDATE",
    tenant=False,
)

REJECTS = Table(
    "registry_rejects",
    Reject,
    Column("number", INT),
    Column("load_id", KEY, field="load"),
    Column("line", INT),
    Column("reason", TEXT),
    Column("text", TEXT),
    key=["number"],
    unique=["load_id, line"],
    since=5,
    what="the rejected row",
    grants="SELECT, INSERT, UPDATE, DELETE",
    tenant=False,
    wide=True,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenEntity:
    """In which release an entity was last seen, with what content, and when it changed."""

    uen: str
    release: str
    content: str  # a digest of all that is stored of it
    changed_at: datetime
    gone_at: datetime | None = None


SEEN = Table(
    "registry_seen",
    SeenEntity,
    Column("uen", KEY),
    Column("release", ORDERED_TEXT),
    Column("content", TEXT),
    Column("changed_at", REPEATED_TIME),
    Column("gone_at", TIME, null=True),
    key=["uen"],
    # A release with nothing new rewrites this table and no index of it.
    fill=50,
    indexes=[Index("registry_changes", "changed_at, uen")],
    since=5,
    what="the entity",
    grants="SELECT, INSERT, UPDATE",
    tenant=False,
)


def _check_ssic(entity: Entity) -> None:
    if len(entity.ssic) > MAX_SSIC_LENGTH:
        raise PermanentError("an entity's industry is no code; clean it first, nothing was written")


ENTITIES: Table[Any] = Table(
    "staging_acra_companies",
    dict,
    Column("uen", KEY),
    Column("name", TEXT),
    Column("kind", ORDERED_TEXT),
    Column("company_type", TEXT),
    Column("status", ORDERED_TEXT),
    Column("live", FLAG),
    Column("registered_on", DATE, null=True),
    Column("ssic", ORDERED_TEXT),
    Column("ssic_secondary", ORDERED_TEXT),
    Column("activity", TEXT),
    Column("street", TEXT),
    Column("postal_code", TEXT),
    Column("officers", INT, null=True),
    Column("former_names", JSON_TEXTS),
    Column("digest", TEXT),
    key=["uen"],
    check=_check_ssic,
    indexes=[Index("companies_by_industry", "ssic")],
    since=5,
    what="the entity",
    grants="SELECT, INSERT, UPDATE",
    tenant=False,
    wide=True,
)

RAW_ENTITIES: Table[Any] = Table(
    "staging_raw_acra",
    dict,
    Column("uen", KEY, parent=True),
    Column("raw", JSON_OBJECT),
    key=["uen"],
    since=5,
    what="the register's row of an entity",
    grants="SELECT, INSERT, UPDATE",
    tenant=False,
    wide=True,
)

CODES = Table(
    "ssic_ref",
    IndustryCode,
    Column("version", KEY),
    Column("code", KEY),
    Column("title", TEXT),
    Column("level", TEXT),
    key=["version", "code"],
    since=5,
    what="the industry code",
    grants="SELECT, INSERT, DELETE",
    tenant=False,
)

TABLES = (LOADS, REJECTS, SEEN, ENTITIES, RAW_ENTITIES, CODES)
