"""Names of register files, parts and releases; which file is loaded, skipped or refused.

Decided from earlier loads before a row is written. A part counts only under its publisher's name,
because an entity missing from all parts together counts as gone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from stoker.base.errors import ConfigError
from stoker.base.reasons import Reason
from stoker.registry.acra import RegisterRow
from stoker.registry.model import PARTS, Load

_PART = re.compile(
    r"(?:.{0,200}[^a-z])?acra ?information ?on ?corporate ?entities[^a-z0-9]{0,50}"
    r"(?P<part>[a-z]|others)(?:[^a-z].{0,300})?",
    re.IGNORECASE,
)

_DATE = re.compile(r"(?<![0-9])(20[0-9]{2})-?(0[1-9]|1[0-2])-?([0-2][0-9]|3[01])(?![0-9])")


def find_part_in_name(name: str) -> str | None:
    """Return the part of the register that a published name tells: A to Z, Others, or None."""
    found = _PART.fullmatch(name[:300])
    return find_part(found["part"]) if found else None


def find_part(text: str) -> str | None:
    """Return the part of the register meant, however it is cased; None when there is none such."""
    wanted = text.strip().casefold()
    return next((part for part in PARTS if part.casefold() == wanted), None)


def find_release_in_name(name: str) -> str | None:
    """Return the release that a date in a file's name tells, e.g. 2025-12-31; None without one."""
    found = _DATE.search(name[-300:])
    try:
        return date(int(found[1]), int(found[2]), int(found[3])).isoformat() if found else None
    except ValueError:
        return None


def parse_release(text: str) -> str:
    """Return the release a person named: a date, so that a later one sorts later."""
    try:
        return date.fromisoformat(text.strip()).isoformat()
    except ValueError:
        raise ConfigError(
            f"{text[:40]!r} is not a release; give its date, e.g. 2025-12-31"
        ) from None


# Put behind a part some of whose rows could not be read: it does not say who is no longer there.
INCOMPLETE = ", incomplete"


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryFile:
    """A file that could be read, and its rows."""

    digest: str
    name: str
    release: str
    part: str
    lines: int
    rows: Callable[[], Iterator[RegisterRow]] = lambda: iter(())

    @property
    def load_id(self) -> str:
        """The id of its load. Two letters that no name begins with have the same, empty file."""
        return f"{self.digest}/{self.part}" if self.part in PARTS else self.digest


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRefusal:
    """A file that is not read: the code, and a sentence that says what to do."""

    reason: Reason
    message: str


def sort_oldest_first(names: Sequence[str]) -> list[str]:
    """Return files by the release their names tell, so that none takes another's rows back."""
    return sorted(names, key=lambda name: find_release_in_name(name) or "")


def get_release_and_part(
    name: str, *, release: str | None = None, part: str | None = None
) -> tuple[str, str] | LoadRefusal:
    """Return a file's release and part, as given by a person or else by its name.

    A file without a known part is a part of its own.
    """
    release = release or find_release_in_name(name)
    if release is None:
        return LoadRefusal(
            reason=Reason.RELEASE_UNKNOWN,
            message=f"the release of {name} is unknown; give --release 2025-12-31, or put a date "
            "into its name; nothing was written",
        )
    return release, part or find_part_in_name(name) or name


def choose_downloads(
    published: Mapping[str, str],
    *,
    wanted: Sequence[str] = (),
    loads: Sequence[Load] = (),
    again: bool = False,
) -> list[str | Load] | LoadRefusal:
    """Return each wanted part (or all): its letter to download it, or its earlier load.

    `published` is the release of each part. One of that release that was read to its end before is
    not downloaded, unless `again` asks for it.
    """
    if missing := [part for part in wanted if part not in published]:
        return LoadRefusal(
            reason=Reason.PART_NOT_PUBLISHED,
            message=f"data.gov.sg has no part {', '.join(missing)} today; leave it out of "
            "--letters, or try again later",
        )
    ended = {(load.release, get_part(load)): load for load in loads if load.ended_at is not None}
    return [
        part if again else ended.get((published[part], part), part) for part in wanted or published
    ]


def find_earlier_load(offered: RegistryFile, loads: Sequence[Load]) -> Load | None:
    """Return the load that read this very file to its end, for the same release and part."""
    wanted = (offered.load_id, offered.release, offered.part)
    for load in loads:
        if load.ended_at is not None and (load.id, load.release, get_part(load)) == wanted:
            return load
    return None


def find_load_refusal(
    offered: RegistryFile, loads: Sequence[Load], *, now: datetime
) -> LoadRefusal | None:
    """Return why a file is not imported unless a person insists; `loads` are newest first.

    Its part of the register has a later release, so rows would become older; the file's date is
    in the future, so all true releases would be refused after it; or the part has less than half
    its earlier rows, so it may be truncated.
    """
    name, release, insist = offered.name, offered.release, "to import it anyway use --allow-older"
    # A day more, because it may be tomorrow where the register is published.
    if release > (now + timedelta(days=1)).date().isoformat():
        return LoadRefusal(
            reason=Reason.RELEASE_TO_COME,
            message=f"{name} is of release {release}, in the future; check the date, or "
            f"{insist}, nothing was written",
        )
    same = [load for load in loads if may_share_rows(get_part(load), offered.part)]
    latest = max(same, key=lambda load: load.release, default=None)
    if latest is not None and latest.release > release:
        return LoadRefusal(
            reason=Reason.RELEASE_PASSED,
            message=f"{name} is of release {release}, and {latest.source} of {latest.release} "
            f"was imported: rows would become older; {insist}, nothing was written",
        )
    had = [load for load in loads if load.ended_at and get_part(load) == offered.part]
    rows = had[0].count.rows_read if had and offered.part in PARTS else 0
    if offered.lines * 2 < rows:
        return LoadRefusal(
            reason=Reason.PART_SHRUNK,
            message=f"{name} has {offered.lines:,} lines, and part {offered.part} had {rows:,} "
            f"rows in {had[0].release}: it may be truncated; {insist}, nothing was written",
        )
    return None


def may_share_rows(part: str, other: str) -> bool:
    """Say whether two files are about the same part; one of no known part may hold any row."""
    return part == other or part not in PARTS or other not in PARTS


def format_loaded_part(part: str, *, rejected: int) -> str:
    """Return what a part counts as once it was read: one with rejected rows is not a whole one."""
    return part + INCOMPLETE if rejected and part in PARTS else part


def get_part(load: Load) -> str:
    """Return which part a load read, whether or not all of it could be."""
    return load.part.removesuffix(INCOMPLETE)
