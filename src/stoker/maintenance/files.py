"""Search files for one person, and say which could not be searched."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from stoker.accounts.erasure import Person
from stoker.base.errors import PermanentError

_CHUNK_BYTES, _OVERLAP_BYTES = 2**20, 4096

# What gzip, zip and office files, Parquet, bzip2, xz, zstd, 7z and PDF begin with.
_COMPRESSED = (
    b"\x1f\x8b",
    b"PK\x03\x04",
    b"PAR1",
    b"BZh",
    b"\xfd7zXZ",
    b"\x28\xb5\x2f\xfd",
    b"7z\xbc\xaf",
    b"%PDF",
)

# SQLite's files and logs, and Postgres dumps: between their values there need not be a space.
_DATABASES = (b"SQLite format 3\0", b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83", b"PGDMP")

_WIDE = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}  # by what a file begins with


@dataclass(slots=True, kw_only=True)
class FileSearch:
    """What a search came to; a file is in neither list if it does not have the person."""

    found: list[Path] = field(default_factory=list)
    unsearched: dict[Path, str] = field(default_factory=dict)  # why


def search_files(
    places: Iterable[Path], person: Person, *, live: Collection[Path] = ()
) -> FileSearch:
    """Search files, and all below folders, for a person; `live` files are the store's own.

    Links to folders are not followed, and an installed Python environment is not searched.
    """
    result = FileSearch()
    seen = {os.path.realpath(path) for path in live}
    for path in _list_paths(places, result.unsearched):
        real = os.path.realpath(path)
        if real in seen:
            continue
        seen.add(real)
        try:
            if stat.S_ISREG(path.stat().st_mode) and _contains(path, person):
                result.found.append(path)
        except FileNotFoundError:
            continue  # deleted meanwhile, or a link to nothing
        except OSError as error:
            result.unsearched[path] = error.strerror or type(error).__name__
        except PermanentError as error:
            result.unsearched[path] = str(error)
    result.found.sort()
    return result


def _list_paths(places: Iterable[Path], unsearched: dict[Path, str]) -> Iterator[Path]:
    def note(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            unsearched[Path(error.filename)] = error.strerror or type(error).__name__

    for place in places:
        if not place.is_dir():
            yield place
            continue
        for name, folders, files in os.walk(place, onerror=note):
            here = Path(name)
            if "pyvenv.cfg" in files and here != place:
                folders.clear()
                continue
            for folder in sorted(folders):
                if folder == ".git":
                    unsearched[here / folder] = "its history is compressed"
                elif (here / folder).is_symlink() and not _is_below(here / folder, place):
                    unsearched[here / folder] = "it is a link; give the folder itself to --search"
            folders[:] = sorted(folder for folder in folders if folder != ".git")
            yield from (here / file for file in sorted(files))


def _is_below(link: Path, place: Path) -> bool:
    return Path(os.path.realpath(link)).is_relative_to(os.path.realpath(place))


def _contains(path: Path, person: Person) -> bool:
    """Return whether a file has the person. Raises PermanentError if its text cannot be read."""
    with path.open("rb") as stream:
        chunk, kept = stream.read(_CHUNK_BYTES), b""
        if chunk.startswith(_COMPRESSED):
            raise PermanentError("it is compressed")
        if chunk.startswith(_DATABASES):
            raise PermanentError("it is a database, or a copy of one")
        encoding = _WIDE.get(chunk[:2], "utf-8")
        while chunk:
            text = (kept + chunk).decode(encoding, "replace")
            if person.redact(text) != text:
                return True
            kept = chunk[-_OVERLAP_BYTES:]
            chunk = stream.read(_CHUNK_BYTES)
    return False
