"""The table of work items: one company's work in a run each."""

from __future__ import annotations

import re
from typing import Any

from stoker.base.errors import PermanentError
from stoker.base.types import Depth, Json, Step
from stoker.db.table import (
    FLAG,
    INT,
    JSON_OBJECT,
    JSON_TEXTS,
    KEY,
    ORDERED_TEXT,
    TEXT,
    TIME,
    Column,
    Index,
    Table,
    enum,
    json_of,
)
from stoker.enrichment.model import (
    SkippedStep,
    SkipReason,
    WorkItem,
    WorkState,
    format_shortage,
    to_cause,
)
from stoker.vendors.table import VENDOR_STEPS


def _check_rank(item: WorkItem) -> None:
    if item.rank < 0:
        raise PermanentError(f"a place is 0 or more, not {item.rank}; nothing was written")


def _skipped_to_json(skipped: tuple[SkippedStep, ...]) -> Json:
    return [[each.step.value, each.cause.value, each.connector] for each in skipped]


def _read_skipped(rows: list[list[str]]) -> tuple[SkippedStep, ...]:
    return tuple(
        SkippedStep(step=Step(step), cause=SkipReason(cause), connector=connector)
        for step, cause, connector in rows
    )


def _build_item(
    *,
    skipped: tuple[SkippedStep, ...] | None,
    is_first: bool | None,
    causes: tuple[str, ...] | None,
    **fields: Any,
) -> WorkItem:
    """Build an item. A row of an earlier version has these three only in its sentences."""
    if skipped is None:
        skipped = _parse_skipped(fields["state"], fields["reasons"])
    if is_first is None:
        is_first = "never scored" in fields["reason"]
    if causes is None:
        causes = tuple(map(_parse_cause, fields["reasons"]))
    return WorkItem(skipped=skipped, is_first=is_first, causes=causes, **fields)


def _parse_skipped(state: WorkState, reasons: tuple[str, ...]) -> tuple[SkippedStep, ...]:
    if state not in (WorkState.DEGRADED, WorkState.UNKNOWN):
        return ()
    named, _, text = (reasons[0] if reasons else "").partition(": ")
    step = Step(named) if named in list(Step) else Step.SCORE
    connector = next((name for name in VENDOR_STEPS if text.startswith(f"{name} ")), "")
    cause = SkipReason.UNKNOWN if state is WorkState.UNKNOWN else SkipReason.LATER
    return (SkippedStep(step=step, cause=cause, connector=connector),)


_CAP_SHORTAGE = re.compile(
    r"(\w+/[\w*]+/[\w:]+/\w+) has (?:[0-9]+ of ([0-9]+)|not enough) left, [0-9]+ needed"
)

_STEP_PREFIX = re.compile(rf"\A({'|'.join(Step)}): ")

_VISIT_OUTCOME = re.compile(r"\A[a-z]+, ")


def _parse_cause(sentence: str) -> str:
    """Return a reason of an earlier version without its step, addresses and amounts."""
    match = _STEP_PREFIX.match(sentence)
    text = sentence[match.end() :] if match else sentence
    step = Step(match[1]) if match else None
    if step is Step.CRAWL:
        text = _VISIT_OUTCOME.sub("", text)
    return _CAP_SHORTAGE.sub(
        lambda found: format_shortage(found[1], int(found[2] or 0)), to_cause(text, step)
    )


ITEMS = Table(
    "company_enrichment_runs",
    _build_item,
    Column("run", KEY, parent=True),
    Column("company_id", KEY, field="company"),
    Column("place", INT, field="rank"),
    Column("depth", enum(Depth)),
    Column("state", enum(WorkState)),
    Column("owner", TEXT),
    Column("until_at", TIME, field="claimed_until", null=True),
    Column("because", TEXT, field="reason"),
    Column("reasons", JSON_TEXTS),
    Column("cost", JSON_OBJECT),
    Column("saved", JSON_OBJECT),
    Column("seconds", JSON_OBJECT),
    Column("ended_at", TIME, null=True),
    Column("skipped", json_of(_skipped_to_json, _read_skipped), null=True, since=13),
    Column("first_lookup", FLAG, field="is_first", null=True, since=13),
    Column("causes", JSON_TEXTS, null=True, since=14),
    Column("run_id", ORDERED_TEXT, generated="run", since=18),
    key=["run", "company_id"],
    unique=["run, place"],
    indexes=[
        Index("units_by_company", "company_id, run"),
        Index("open_units", "run, place", where="state IN ('waiting', 'taken')"),
    ],
    check=_check_rank,
    since=6,
    what="the work item of",
    grants="SELECT, INSERT, UPDATE, DELETE",
    fill=50,  # items are rewritten twice a night
    wide=True,
)

TABLES = (ITEMS,)
