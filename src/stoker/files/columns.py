"""Encode columns of numbers and texts as compact parts, and decode them.

Parts have so many rows each. A digest is of the content, not of its encoding. Damaged parts are
refused with PermanentError.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stoker.base.errors import PermanentError

PART_ROWS = 65_536  # accounts

_MAGIC = b"stoker-columns-1\n"
_MAX_HEADER_BYTES = 64_000
_MAX_ROWS = 2**31
_COMPRESSION_LEVEL = 6
_DTYPES = ("u1", "<u2", "<i4", "<i8", "<f4", "<f8")
_TEXT_KIND = "text"

PackedColumn = NDArray[Any]
Columns = Mapping[str, "PackedColumn | Sequence[str]"]


def compute_columns_digest(columns: Columns) -> str:
    """Return a hash of the columns' content, whatever their encoding."""
    digest = hashlib.sha256()
    for name in sorted(columns):
        kind, raw = _to_bytes(columns[name])
        digest.update(f"{name}\0{kind}\0{len(raw)}\0".encode())
        digest.update(raw)
    return digest.hexdigest()


def encode_columns(columns: Columns, *, part: int = PART_ROWS) -> list[bytes]:
    """Return columns of equal length in parts of so many rows; at least one part."""
    sizes = {len(column) for column in columns.values()}
    if len(sizes) != 1:
        raise PermanentError(f"columns are of one length, not {sorted(sizes)}")
    (size,) = sizes
    return [
        _encode_part({name: column[begin : begin + part] for name, column in columns.items()})
        for begin in range(0, max(size, 1), part)
    ]


def decode_columns(parts: Sequence[bytes]) -> dict[str, Any]:
    """Return the columns in these parts, joined."""
    decoded = [_decode_part(part) for part in parts]
    if not decoded or any(each.keys() != decoded[0].keys() for each in decoded):
        raise PermanentError("these parts do not belong together")
    joined: dict[str, Any] = {}
    for name, first in decoded[0].items():
        pieces = [each[name] for each in decoded]
        if isinstance(first, list):
            joined[name] = [text for piece in pieces for text in piece]
        else:
            joined[name] = np.concatenate(pieces)
    return joined


def _encode_part(columns: Columns) -> bytes:
    described, body = [], []
    for name, column in columns.items():
        kind, raw = _to_bytes(column)
        described.append([name, kind, len(raw)])
        body.append(_shuffle_bytes(raw, kind))
    rows = len(next(iter(columns.values())))
    header = json.dumps({"rows": rows, "columns": described}, separators=(",", ":")).encode()
    return (
        _MAGIC
        + len(header).to_bytes(4, "big")
        + header
        + zlib.compress(b"".join(body), _COMPRESSION_LEVEL)
    )


def _decode_part(part: bytes) -> dict[str, Any]:
    start = len(_MAGIC) + 4
    length = int.from_bytes(part[len(_MAGIC) : start], "big")
    if not part.startswith(_MAGIC) or length > _MAX_HEADER_BYTES:
        raise PermanentError("a part of a plan does not begin as one; it is damaged")
    try:
        header = json.loads(part[start : start + length])
        rows, described = int(header["rows"]), [tuple(each) for each in header["columns"]]
        total = sum(int(long) for _, _, long in described)
        if not 0 <= total <= _MAX_ROWS:
            raise PermanentError("a part of a plan says it is too large to be one; it is damaged")
        reader = zlib.decompressobj()
        body = reader.decompress(part[start + length :], total + 1)
        if len(body) != total or not reader.eof:
            raise PermanentError("a part of a plan is not as long as it says; it is damaged")
        columns: dict[str, Any] = {}
        at = 0
        for name, kind, long in described:
            columns[name] = _parse_column(body[at : at + long], kind, rows)
            at += long
    except (ValueError, KeyError, TypeError, zlib.error) as error:
        raise PermanentError(f"a part of a plan cannot be read; it is damaged ({error})") from error
    return columns


def _to_bytes(column: PackedColumn | Sequence[str]) -> tuple[str, bytes]:
    if isinstance(column, np.ndarray):
        kind = column.dtype.newbyteorder("<").str.replace("|", "")
        if kind not in _DTYPES or column.ndim != 1:
            raise PermanentError(f"a column of {column.dtype} cannot be saved")
        return kind, np.ascontiguousarray(column, dtype=kind).tobytes()
    texts = [text.encode() for text in column]
    lengths = np.array([len(text) for text in texts], "<i4")
    return _TEXT_KIND, lengths.tobytes() + b"".join(texts)


def _parse_column(raw: bytes, kind: str, rows: int) -> PackedColumn | list[str]:
    if kind == _TEXT_KIND:
        ends = np.cumsum(np.frombuffer(raw[: 4 * rows], "<i4").astype(np.int64))
        texts = raw[4 * rows :]
        if len(ends) != rows or (
            rows and (int(ends[-1]) != len(texts) or (np.diff(ends) < 0).any())
        ):
            raise ValueError("texts of other lengths")
        bounds = [0, *ends.tolist()]
        return [texts[one:other].decode() for one, other in pairwise(bounds)]
    if kind not in _DTYPES:
        raise ValueError(f"a column of {kind!r}")
    column = np.frombuffer(_unshuffle_bytes(raw, kind), kind)
    if len(column) != rows:
        raise ValueError(f"{len(column)} rows in place of {rows}")
    return column


def _shuffle_bytes(raw: bytes, kind: str) -> bytes:
    """Return numbers with their first bytes first, then their second: alike bytes pack better."""
    wide = 1 if kind == _TEXT_KIND else np.dtype(kind).itemsize
    if wide == 1:
        return raw
    return np.frombuffer(raw, np.uint8).reshape(-1, wide).T.tobytes()


def _unshuffle_bytes(raw: bytes, kind: str) -> bytes:
    wide = np.dtype(kind).itemsize
    if wide == 1 or len(raw) % wide:
        return raw
    return np.frombuffer(raw, np.uint8).reshape(wide, -1).T.tobytes()
