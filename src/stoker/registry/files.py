"""Register and classification files on disk: plain, gzipped or zipped, checked before use.

A first pass finds a file that is truncated, is no register, or holds another part, before any of
its rows is stored. The digest of the content names a file, packed or not.
"""

from __future__ import annotations

import gzip
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from stoker.base.errors import PermanentError, TransientError
from stoker.base.types import clean_text
from stoker.files.tables import MAX_LINE_BYTES, CsvRow, normalize_column, read_csv
from stoker.registry.acra import (
    REQUIRED_COLUMNS,
    AcraColumns,
    ParsedRow,
    RegisterRow,
    RejectedRow,
)
from stoker.registry.model import IndustryCode
from stoker.registry.releases import find_part
from stoker.registry.ssic import CodeColumns

MAX_CODES = 20_000  # a classification has some two thousand, all levels together


@dataclass(frozen=True, slots=True)
class CodeFile:
    """What a file had: codes, and the lines that were left out, each with the reason."""

    codes: list[IndustryCode] = field(default_factory=list)
    refused: list[tuple[int, str]] = field(default_factory=list)


def read_industry_codes(path: Path, *, version: str) -> CodeFile:
    """Read a classification. Raises PermanentError when the file holds none."""
    read, seen = CodeFile(), set[str]()
    try:
        with path.open("rb") as stream:
            found = read_csv(stream)
            header = next(found, None)
            if header is None or header.wrong:
                raise PermanentError(f"{path.name} has no readable first line")
            columns = CodeColumns(header.cells, version=version)
            for record in found:
                industry = record.wrong or columns.parse_row(record.cells)
                if isinstance(industry, IndustryCode) and industry.code in seen:
                    industry = "its code was there before"
                if isinstance(industry, str):
                    read.refused.append((record.line, industry))
                    continue
                seen.add(industry.code)
                read.codes.append(industry)
                if len(read.codes) + len(read.refused) > MAX_CODES:
                    raise PermanentError(f"{path.name} has more than {MAX_CODES:,} rows")
    except OSError as error:
        raise PermanentError(f"{path.name} cannot be read: {error.strerror}") from error
    if not read.codes:
        raise PermanentError(f"{path.name} has no industry in it; nothing was written")
    return read


MAX_BYTES = 4_000_000_000  # unpacked; the whole register has a sixth of it
MAX_FILES = 100  # in one archive
_MANY_UNDECODABLE = 3  # lines; fewer are rejected one by one, unless they are a third of all
_SAMPLE_ROWS = 200  # rows whose names tell which letter's file it is
_CHUNK_BYTES = 1024 * 1024
_GZIP, _ZIP = b"\x1f\x8b", b"PK"
_WIDE = (b"\xff\xfe", b"\xfe\xff")
_OLD_WORKBOOK, _WORKBOOK_PART = b"\xd0\xcf\x11\xe0", "xl/workbook.xml"
_OTHER_DELIMITERS = {";": "semicolons", "\t": "tabs", "|": "bars"}

_DAMAGE_ERRORS = (
    EOFError,
    zlib.error,
    gzip.BadGzipFile,
    zipfile.BadZipFile,
    RuntimeError,
    ValueError,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedFile:
    """One file of the register that was looked through: it is whole, and has its columns."""

    path: Path
    member: str  # of an archive; empty when the file is not one
    digest: str
    lines: int

    @property
    def name(self) -> str:
        return f"{self.path.name}:{self.member}" if self.member else self.path.name

    def iter_rows(self) -> Iterator[RegisterRow]:
        """Yield every row as an entity or as what could not be read.

        Raises TransientError at the end when the file is no longer what was looked through.
        """
        with _open_member(self.path, self.member) as stream:
            found = read_csv(stream)
            columns = _read_columns(found, self.name)
            for record in found:
                yield _parse_record(columns, record)
            stream.finish()
            if stream.digest != self.digest:
                raise TransientError(f"{self.name} changed while it was read; import it again")


def open_register_files(path: Path, *, part: str = "") -> list[CheckedFile]:
    """Look through a file, or through every CSV file in an archive.

    Raises PermanentError for what is not there, breaks off, is too large, is no register, or has
    names that do not begin as those of the part should.
    """
    members = _list_members(path)
    return [_inspect_file(path, member, part=part) for member in members]


def _inspect_file(path: Path, member: str, *, part: str) -> CheckedFile:
    name = f"{path.name}:{member}" if member else path.name
    with _open_member(path, member) as stream:
        found = read_csv(stream)
        columns = _read_columns(found, name)
        _check_part(columns, found, name, part=part)
        stream.finish()
        if _is_truncated(stream.unended, columns.width):
            raise PermanentError(f"{name} is cut off in its last row; download it again")
        if stream.is_other_encoding():
            raise PermanentError(
                f"{name} is not UTF-8 but perhaps Latin-1 text ({stream.undecodable:,} of "
                f"{stream.lines:,} lines); save it as UTF-8 first, nothing was written"
            )
        return CheckedFile(path=path, member=member, digest=stream.digest, lines=stream.lines)


class _Bytes(Protocol):
    def readline(self, size: int, /) -> bytes: ...
    def read(self, size: int, /) -> bytes: ...


class _HashingReader:
    """A stream that counts and digests what is read from it, and ends what is too large."""

    def __init__(self, stream: _Bytes, name: str) -> None:
        self._stream, self._name = stream, name
        self._sha, self._bytes, self.lines = sha256(), 0, 0
        self.undecodable = self._beyond_ascii = 0  # lines that are no UTF-8, or need it
        self.unended = b""  # what came since the last end of a line, no more than a line has

    @property
    def digest(self) -> str:
        return self._sha.hexdigest()

    def readline(self, size: int, /) -> bytes:
        with _ReadableErrors(self._name):
            piece = self._stream.readline(size)
        return self._count(piece)

    def finish(self) -> None:
        """Read the rest, so that the digest is of everything."""
        more = True
        while more:
            with _ReadableErrors(self._name):
                piece = self._stream.read(_CHUNK_BYTES)
            more = bool(self._count(piece))
        self._check_encoding(self.unended)

    def is_other_encoding(self) -> bool:
        """Say whether the text read to its end is in another encoding than UTF-8."""
        bad = self.undecodable
        is_many = bad >= _MANY_UNDECODABLE or 3 * bad >= self.lines
        return bad > self._beyond_ascii and is_many

    def _count(self, piece: bytes) -> bytes:
        self._bytes += len(piece)
        if self._bytes > MAX_BYTES:
            raise PermanentError(f"{self._name} has more than {MAX_BYTES:,} bytes unpacked")
        self._sha.update(piece)
        self.lines += piece.count(b"\n")
        after = piece.rfind(b"\n") + 1
        if after:
            self._check_encoding(self.unended + piece[:after])
            self.unended = piece[after:]
        elif len(self.unended) < MAX_LINE_BYTES:
            self.unended += piece[:MAX_LINE_BYTES]
        return piece

    def _check_encoding(self, text: bytes) -> None:
        if text.isascii():
            return
        for line in text.split(b"\n"):
            if line.isascii() or len(line) > MAX_LINE_BYTES:
                continue
            try:
                line.decode()
                self._beyond_ascii += 1
            except UnicodeDecodeError:
                self.undecodable += 1


@contextmanager
def _open_member(path: Path, member: str) -> Iterator[_HashingReader]:
    name = f"{path.name}:{member}" if member else path.name
    with ExitStack() as open_things:
        stream: _Bytes
        with _ReadableErrors(name):
            if member:
                archive = open_things.enter_context(zipfile.ZipFile(path))
                stream = open_things.enter_context(archive.open(member))
            elif _read_magic(path).startswith(_GZIP):
                stream = open_things.enter_context(gzip.open(path, "rb"))
            else:
                stream = open_things.enter_context(path.open("rb"))
        yield _HashingReader(stream, name)


class _ReadableErrors:
    """Turns what the system says about a file that cannot be read into one sentence."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        return None

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, _DAMAGE_ERRORS):
            raise PermanentError(
                f"{self._name} is damaged or truncated; download it again, nothing more was read"
            ) from error
        if isinstance(error, OSError):
            why = error.strerror or "the system does not say why"
            raise PermanentError(f"{self._name} cannot be read: {why}") from error


def _list_members(path: Path) -> list[str]:
    """Return the CSV files in an archive; one empty name for what is no archive."""
    begins = _read_magic(path)
    if begins.startswith(_WIDE):
        raise PermanentError(f"{path.name} is UTF-16 text; save it as UTF-8 first")
    if begins.startswith(_OLD_WORKBOOK):
        raise PermanentError(f"{path.name} is an Excel workbook; save it as CSV UTF-8 first")
    if begins.lstrip().startswith(b"<"):
        raise PermanentError(f"{path.name} is a web page, not the register; download it again")
    if not begins.startswith(_ZIP):
        return [""]
    with _ReadableErrors(path.name), zipfile.ZipFile(path) as archive:
        inside = archive.namelist()
    if _WORKBOOK_PART in inside:
        raise PermanentError(f"{path.name} is an Excel workbook; save it as CSV UTF-8 first")
    names = [each for each in inside if each.lower().endswith(".csv")]
    if not 0 < len(names) <= MAX_FILES:
        raise PermanentError(f"{path.name} has {len(names)} CSV files in it, not 1 to {MAX_FILES}")
    return sorted(names)


def _read_magic(path: Path) -> bytes:
    with _ReadableErrors(path.name), path.open("rb") as stream:
        return stream.read(64)


def _read_columns(found: Iterator[CsvRow], name: str) -> AcraColumns:
    header = next(found, None)
    if header is None:
        raise PermanentError(f"{name} is empty")
    if header.wrong:
        raise PermanentError(f"{name}: the first line cannot be read, {header.wrong}")
    try:
        return AcraColumns(header.cells)
    except PermanentError as error:
        if delimiter := _find_other_delimiter(header.text):
            raise PermanentError(
                f"{name}: its columns are separated by {delimiter}; save it with commas"
            ) from error
        raise PermanentError(f"{name}: {error}") from error


def _find_other_delimiter(line: str) -> str:
    """Return what separates the columns of a first line, where it is something else than commas."""
    for delimiter, called in _OTHER_DELIMITERS.items():
        names = {normalize_column(cell.strip().strip('"')) for cell in line.split(delimiter)}
        if names.issuperset(REQUIRED_COLUMNS):
            return called
    return ""


def _is_truncated(unended: bytes, width: int) -> bool:
    """Say whether a file's last row, without an end, has fewer cells than the others."""
    # With quotes it may be the end of a cell that goes over several lines, and a line without end
    # is no row: what is wrong with them shows when they are read.
    if not unended.strip() or b'"' in unended or len(unended) >= MAX_LINE_BYTES:
        return False
    return unended.count(b",") + 1 < width


def _parse_record(columns: AcraColumns, record: CsvRow) -> RegisterRow:
    reading = record.wrong or columns.parse_row(record.cells)
    if isinstance(reading, str):
        return RejectedRow(record.line, reading, clean_text(record.text).strip())
    return reading


def _check_part(columns: AcraColumns, found: Iterator[CsvRow], name: str, *, part: str) -> None:
    if not part or (letter := find_part(part)) is None:
        return
    strangers = seen = 0
    for record in found:
        if isinstance(reading := _parse_record(columns, record), ParsedRow):
            seen += 1
            strangers += not is_in_part(reading.entity.name, letter)
        if seen == _SAMPLE_ROWS:
            break
    if strangers * 2 > seen:
        raise PermanentError(
            f"{name} is not part {letter} of the register: {strangers} of its first {seen} names "
            "begin otherwise"
        )


def is_in_part(name: str, part: str) -> bool:
    """Say whether an entity of this name is in that part: its letter, or Others for no letter."""
    first = name[:1].upper()
    return first == part if len(part) == 1 else not ("A" <= first <= "Z")
