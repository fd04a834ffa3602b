"""What every store can keep of what connectors said; the rest is refused unwritten.

Each function returns a value as a store gives it back, as `core.keeping` does for other values,
and raises what it raises. Names that rows are found by are held to the length every database's
keys can have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stoker.base.errors import PermanentError
from stoker.base.types import in_utc
from stoker.db.codec import kept_text
from stoker.db.values import LONGEST_NAME, kept_name, kept_texts, kept_whole
from stoker.registry.model import Entity, IndustryCode, Load, LoadCount, Reject


def kept_entity(entity: Entity) -> Entity:
    """Return an entity as a store gives it back, but for the dates that the store itself tells."""
    kept_name(entity.uen, what="an entity's number")
    kept_text(entity.ssic, what="an entity's industry")
    if len(entity.ssic) > LONGEST_NAME // 4:
        raise PermanentError("an entity's industry is no code; clean it first, nothing was written")
    kept_texts(_texts(entity), what="an entity")
    if entity.officers is not None:
        kept_whole(entity.officers, what="a number of officers")
    return replace(entity, raw=dict(entity.raw), changed_at=None, gone_at=None)


def kept_load(load: Load) -> Load:
    """Return a load as it stands when it begins."""
    kept_name(load.id, what="a load's id")
    kept_name(load.release, what="a release")
    kept_name(load.part, what="a part of the register")
    kept_text(load.source, what="a load's source")
    began_at = in_utc(load.began_at, what="when a load began")
    return replace(load, began_at=began_at, ended_at=None, count=LoadCount())


def kept_count(count: LoadCount) -> LoadCount:
    """Return a count as a store gives it back."""
    for number in (count.new, count.changed, count.same, count.rejected, count.gone):
        kept_whole(number, what="a count")
    return count


def kept_rejects(load: Load, rejects: Sequence[Reject]) -> dict[int, Reject]:
    """Return rejects by line, the latest of each; all must be of this load."""
    for reject in rejects:
        kept_texts((reject.reason, reject.text), what="a row that could not be read")
        kept_whole(reject.line, what="a line")
        if reject.load != load.id:
            raise PermanentError("a rejected row is of another load; nothing was written")
    return {reject.line: reject for reject in rejects}


def kept_codes(version: str, codes: Sequence[IndustryCode]) -> list[IndustryCode]:
    """Return a classification in code order, each code there once and all of this version."""
    kept_name(version, what="a classification's version")
    for one in codes:
        kept_name(one.code, what="an industry's code")
        kept_texts((one.title, one.level), what="an industry")
        if one.version != version:
            raise PermanentError(
                f"the industry {one.code} is of version {one.version}, not {version}; "
                "nothing was written"
            )
    if len({one.code for one in codes}) < len(codes):
        raise PermanentError("an industry's code is there twice; nothing was written")
    return sorted(codes, key=lambda one: one.code)


def kept_by(by: str) -> str:
    """Return what entities are counted by, if they can be."""
    if by not in ("status", "kind", "division", "state"):
        raise PermanentError(
            f"entities are not counted by {by!r}; say status, kind, division or state"
        )
    return by


def _texts(entity: Entity) -> list[str]:
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
