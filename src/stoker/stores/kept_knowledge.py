"""What every store can keep of what connectors said; the rest is refused unwritten.

Each function returns a value as a store gives it back, as `core.keeping` does for other values,
and raises what it raises. Names that rows are found by are held to the length every database's
keys can have.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from stoker.core.entities import Entity, IndustryCode, Load, LoadCount, Reject
from stoker.core.keeping import kept_json, kept_text
from stoker.core.model import LONGEST_TEXT, in_utc
from stoker.core.pages import PageSeen
from stoker.errors import PermanentError
from stoker.sources import Kept

LONGEST_NAME = 500  # bytes, of a name that rows are found by
LONGEST_SITE = 300  # bytes; a host name has at most 253
LONGEST_URL = 2_000  # bytes; site and address together still fit into one key
_LARGEST = 2**63 - 1


def kept_name(text: str, *, what: str, longest: int = LONGEST_NAME) -> str:
    """Return a name that every store can keep, and find again by; there must be one."""
    if not text:
        raise PermanentError(f"{what} is empty; give it one, nothing was written")
    if len(kept_text(text, what=what).encode()) > longest:
        raise PermanentError(
            f"{what} is longer than {longest} bytes; shorten it, nothing was written"
        )
    return text


def kept_texts(texts: Iterable[str], *, what: str) -> None:
    """Refuse texts of which some store could not keep one."""
    # One look at all of them together: this runs once for each of a million rows.
    together = "".join(texts := list(texts))
    if len(together) > LONGEST_TEXT or not together.isascii() or "\0" in together:
        for text in texts:
            kept_text(text, what=what)


def kept_whole(number: int, *, what: str) -> None:
    """Refuse a number that some store could not keep."""
    if not -_LARGEST <= number <= _LARGEST:
        raise PermanentError(f"{what} is too large a number to be kept; nothing was written")


def kept_page(page: PageSeen) -> PageSeen:
    """Return what was seen of a page as a store gives it back."""
    kept_name(page.url, what="a page's address", longest=LONGEST_URL)
    for text in (page.etag, page.last_modified, page.fingerprint):
        kept_text(text, what="what was seen of a page")
    kept_whole(page.status, what="a page's status")
    return replace(
        page,
        seen_at=in_utc(page.seen_at, what="when a page was seen"),
        changed_at=in_utc(page.changed_at, what="when a page changed"),
    )


def kept_answer(kept: Kept) -> Kept:
    """Return a paid answer as a store gives it back."""
    kept_name(kept.key, what="an answer's key")
    kept_text(kept.connector, what="a connector's name")
    return replace(
        kept,
        answer=kept_json(kept.answer, what="an answer"),
        cost=kept_json(dict(kept.cost), what="an answer's cost"),
        at=in_utc(kept.at, what="when an answer came"),
        good_until=in_utc(kept.good_until, what="how long an answer is good"),
    )


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
