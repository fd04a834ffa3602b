"""What every store can keep of what connectors said; the rest is refused unwritten.

Each function returns a value as a store gives it back, as `core.keeping` does for other values,
and raises what it raises. Names that rows are found by are held to the length every database's
keys can have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stoker.base.errors import PermanentError
from stoker.base.types import to_utc
from stoker.db.codec import validate_text
from stoker.db.values import MAX_KEY_BYTES, validate_int64, validate_key, validate_texts
from stoker.registry.model import Entity, IndustryCode, Load, LoadCount, Reject


def validate_entity(entity: Entity) -> Entity:
    """Return an entity as a store gives it back, but for the dates that the store itself tells."""
    validate_key(entity.uen, what="an entity's number")
    validate_text(entity.ssic, what="an entity's industry")
    if len(entity.ssic) > MAX_KEY_BYTES // 4:
        raise PermanentError("an entity's industry is no code; clean it first, nothing was written")
    validate_texts(_list_texts(entity), what="an entity")
    if entity.officers is not None:
        validate_int64(entity.officers, what="a number of officers")
    return replace(entity, raw=dict(entity.raw), changed_at=None, gone_at=None)


def validate_load(load: Load) -> Load:
    """Return a load as it stands when it begins."""
    validate_key(load.id, what="a load's id")
    validate_key(load.release, what="a release")
    validate_key(load.part, what="a part of the register")
    validate_text(load.source, what="a load's source")
    began_at = to_utc(load.began_at, what="when a load began")
    return replace(load, began_at=began_at, ended_at=None, count=LoadCount())


def validate_load_count(count: LoadCount) -> LoadCount:
    """Return a count as a store gives it back."""
    for number in (count.new, count.changed, count.same, count.rejected, count.gone):
        validate_int64(number, what="a count")
    return count


def validate_rejects(load: Load, rejects: Sequence[Reject]) -> dict[int, Reject]:
    """Return rejects by line, the latest of each; all must be of this load."""
    for reject in rejects:
        validate_texts((reject.reason, reject.text), what="a row that could not be read")
        validate_int64(reject.line, what="a line")
        if reject.load != load.id:
            raise PermanentError("a rejected row is of another load; nothing was written")
    return {reject.line: reject for reject in rejects}


def validate_codes(version: str, codes: Sequence[IndustryCode]) -> list[IndustryCode]:
    """Return a classification in code order, each code there once and all of this version."""
    validate_key(version, what="a classification's version")
    for one in codes:
        validate_key(one.code, what="an industry's code")
        validate_texts((one.title, one.level), what="an industry")
        if one.version != version:
            raise PermanentError(
                f"the industry {one.code} is of version {one.version}, not {version}; "
                "nothing was written"
            )
    if len({one.code for one in codes}) < len(codes):
        raise PermanentError("an industry's code is there twice; nothing was written")
    return sorted(codes, key=lambda one: one.code)


def validate_grouping(by: str) -> str:
    """Return what entities are counted by, if they can be."""
    if by not in ("status", "kind", "division", "state"):
        raise PermanentError(
            f"entities are not counted by {by!r}; say status, kind, division or state"
        )
    return by


def _list_texts(entity: Entity) -> list[str]:
    return [
        entity.name,
        entity.kind,
        entity.company_type,
        entity.status,
        entity.ssic_secondary,
        entity.activity,
        entity.street,
        entity.postal_code,
        entity.digest,
        *entity.former_names,
        *entity.raw.keys(),
        *entity.raw.values(),
    ]
