"""The public register in dictionaries: the model the other registers are held to.

Each verb is plain code without a wait in it, so on one event loop it is atomic as it stands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from stoker.base.errors import ConflictError, PermanentError
from stoker.base.types import to_utc
from stoker.db.codec import validate_text
from stoker.db.values import validate_key
from stoker.registry.model import (
    Entity,
    IndustryCode,
    Load,
    LoadCount,
    Reject,
    choose_change_time,
    is_whole_register,
)
from stoker.registry.schema import CODES, ENTITIES, LOADS, RAW_ENTITIES, REJECTS

_WORDS: dict[str, Callable[[Entity], str]] = {
    "status": lambda entity: entity.status,
    "kind": lambda entity: entity.kind,
    "division": lambda entity: entity.ssic[:2],
    "state": lambda entity: "gone" if entity.gone_at else "live" if entity.live else "closed",
}


@dataclass(frozen=True, slots=True)
class _Seen:
    entity: Entity
    release: str  # the latest it was seen in


class MemoryRegistry:
    """A `RegistryStore` in this process."""

    def __init__(self) -> None:
        self._loads: dict[str, Load] = {}
        self._seen: dict[str, _Seen] = {}
        self._latest: datetime | None = None  # that a change is dated
        self._rejects: dict[tuple[str, int], Reject] = {}
        self._last_reject = 0
        self._codes: dict[str, list[IndustryCode]] = {}

    async def begin_load(self, load: Load) -> None:
        load = LOADS.store(replace(load, ended_at=None, count=LoadCount()))
        self._loads[load.id] = load
        self._rejects = {
            place: reject for place, reject in self._rejects.items() if place[0] != load.id
        }

    async def load_entities(
        self, load: Load, rows: Sequence[Entity], *, now: datetime
    ) -> LoadCount:
        moment = choose_change_time(to_utc(now), latest=self._latest)
        release = self._open(load).release
        new = changed = same = 0
        for entity in [_stored(row) for row in rows]:
            known = self._seen.get(entity.uen)
            if known is None:
                new += 1
                self._seen[entity.uen] = _Seen(replace(entity, changed_at=moment), release)
                self._latest = moment
                continue
            as_known = replace(entity, changed_at=known.entity.changed_at)
            if as_known == known.entity:
                same += 1
            else:
                changed += 1
                as_known = replace(entity, changed_at=moment)
                self._latest = moment
            self._seen[entity.uen] = _Seen(as_known, max(release, known.release))
        return LoadCount(new=new, changed=changed, same=same)

    async def reject_rows(self, load: Load, rejects: Sequence[Reject]) -> None:
        if any(reject.load != load.id for reject in rejects):
            raise PermanentError("a rejected row is of another load; nothing was written")
        by_line = {reject.line: REJECTS.store(reject) for reject in rejects}
        self._open(load)
        for line, reject in by_line.items():
            known = self._rejects.get((load.id, line))
            if known is None:
                self._last_reject += 1
            number = known.number if known else self._last_reject
            self._rejects[load.id, line] = replace(reject, number=number)

    async def end_load(self, load: Load, *, now: datetime) -> Load:
        ended_at, count = to_utc(now), LOADS.store(load).count
        begun = self._begun(load)
        self._loads[load.id] = begun = replace(begun, ended_at=ended_at)
        gone = self._mark_gone(
            begun.release, moment=choose_change_time(ended_at, latest=self._latest)
        )
        self._loads[load.id] = replace(begun, count=replace(count, gone=gone))
        return self._loads[load.id]

    async def list_loads(self, *, limit: int = 100) -> list[Load]:
        by_id = sorted(self._loads.values(), key=lambda load: load.id)
        return sorted(by_id, key=lambda load: load.began_at, reverse=True)[:limit]

    async def list_rejects(self, *, after: int = 0, limit: int = 1000) -> list[Reject]:
        oldest_first = sorted(self._rejects.values(), key=lambda reject: reject.number)
        return [reject for reject in oldest_first if reject.number > after][:limit]

    async def find_entity(self, uen: str) -> Entity | None:
        known = self._seen.get(validate_key(uen, what="an entity's number"))
        return known.entity if known else None

    async def list_changed_entities(
        self, *, since: datetime | None = None, after: str = "", limit: int = 1000
    ) -> list[Entity]:
        validate_text(after, what="an entity's number")
        since = since and to_utc(since)
        in_order = sorted(
            (seen.entity.changed_at, uen)
            for uen, seen in self._seen.items()
            if seen.entity.changed_at is not None
        )
        wanted = [
            uen
            for changed_at, uen in in_order
            if since is None or changed_at > since or (after and (changed_at, uen) > (since, after))
        ]
        return [self._seen[uen].entity for uen in wanted[:limit]]

    async def count_entities(self, *, by: str = "status") -> dict[str, int]:
        if by not in _WORDS:
            raise PermanentError(f"entities are not counted by {by!r}")
        word = _WORDS[by]
        entities = [seen.entity for seen in self._seen.values()]
        there = [entity for entity in entities if by == "state" or entity.gone_at is None]
        return dict(sorted(Counter(map(word, there)).items()))

    async def load_codes(self, version: str, codes: Sequence[IndustryCode]) -> None:
        CODES.encode(version=version)
        kept = {code.code: code for code in map(CODES.store, codes)}
        if len(kept) < len(codes) or any(code.version != version for code in codes):
            raise PermanentError("a code is there twice, or of another version")
        self._codes[version] = [kept[code] for code in sorted(kept)]

    async def list_codes(self, version: str) -> list[IndustryCode]:
        validate_key(version, what="a classification's version")
        return list(self._codes.get(version, []))

    def _begun(self, load: Load) -> Load:
        if load.id not in self._loads:
            raise ConflictError("this load was never begun; begin it first, nothing was written")
        return self._loads[load.id]

    def _open(self, load: Load) -> Load:
        begun = self._begun(load)
        if begun.ended_at is not None:
            raise ConflictError("this load has ended; begin it again first, nothing was written")
        return begun

    def _mark_gone(self, release: str, *, moment: datetime) -> int:
        ended = [load for load in self._loads.values() if load.ended_at is not None]
        if not is_whole_register({load.part for load in ended if load.release == release}):
            return 0
        going = [
            seen
            for seen in self._seen.values()
            if seen.release < release and seen.entity.gone_at is None
        ]
        for seen in going:
            gone = replace(seen.entity, gone_at=moment, changed_at=moment)
            self._seen[gone.uen] = _Seen(gone, seen.release)
            self._latest = moment
        return len(going)


def _stored(entity: Entity) -> Entity:
    return Entity(**ENTITIES.store(entity), **RAW_ENTITIES.store(entity))
