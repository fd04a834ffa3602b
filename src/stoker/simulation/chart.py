"""Draw a bar chart as a PNG file, without a picture library."""

from __future__ import annotations

import struct
import sys
import zlib
from collections.abc import Sequence
from pathlib import Path

from stoker.base.errors import ConfigError
from stoker.files.durable import STDOUT, open_output

_WIDTH, _HEIGHT, _EDGE, _SCALE = 960, 480, 48, 2

_PAPER, _INK, _BAR, _FAINT = 0, 1, 2, 3

_PALETTE = bytes((255, 255, 255, 40, 40, 40, 70, 120, 180, 220, 220, 220))

_GLYPHS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.%:-+,"

_GLYPH_ROWS = (
    "257556565634443655567464774644345535575572227111525565544447577556555525552656442556365655"
    "342167222255557555525577555255552227124725552262276124761216557117461634652712222525225316"
    "000025124502020007000272000024"
)

# Five rows of three pixels a letter, the top row first.
_GLYPH_ROWS_BY_LETTER = {
    letter: _GLYPH_ROWS[5 * nth : 5 * nth + 5] for nth, letter in enumerate(_GLYPHS)
}


def write_bar_chart(
    path: Path | None,
    title: str,
    labels: Sequence[str],
    values: Sequence[float],
    *,
    as_json: bool = False,
) -> bool:
    """Write the chart to a file, if one is named; one that is there is replaced.

    Returns whether it went to stdout, where nothing may follow it; raises ConfigError when JSON
    was to follow, or a terminal would get it.
    """
    if path is None:
        return False
    if path == STDOUT and (as_json or sys.stdout.isatty()):
        other = "--json also wants stdout" if as_json else "a terminal does not show pictures"
        raise ConfigError(f"{other}; name a file with --plot FILE.png")
    with open_output(path) as stream:
        stream.write(draw_bar_chart(title, labels, values))
    return path == STDOUT


def draw_bar_chart(title: str, labels: Sequence[str], values: Sequence[float]) -> bytes:
    """Return a PNG file with one bar per value, its label below it and the largest value beside."""
    rows = [bytearray(_WIDTH) for _ in range(_HEIGHT)]
    most = max([value for value in values if value > 0], default=1.0)
    floor, top = _HEIGHT - _EDGE, _EDGE
    for part in range(5):
        y = floor - part * (floor - top) // 4
        _draw_box(rows, _EDGE, y, _WIDTH - _EDGE, y + 1, _FAINT if part else _INK)
    step = (_WIDTH - 2 * _EDGE) / max(len(values), 1)
    every = -(-len(values) // 24)  # labels must not run into each other
    for nth, (label, value) in enumerate(zip(labels, values, strict=True)):
        left = _EDGE + int(nth * step)
        right = max(left + int(step * 0.8), left + 1)
        _draw_box(rows, left, floor - int((floor - top) * max(value, 0) / most), right, floor, _BAR)
        if nth % every == 0:
            _draw_text(rows, left, floor + 8, label)
    _draw_text(rows, _EDGE, 16, title)
    _draw_text(rows, 4, top - 14, f"{most:.4g}")
    return _encode_png(rows)


def _draw_box(
    rows: list[bytearray], left: int, top: int, right: int, bottom: int, ink: int
) -> None:
    for row in rows[top:bottom]:
        row[left:right] = bytes([ink]) * (right - left)


def _draw_text(rows: list[bytearray], left: int, top: int, text: str) -> None:
    for letter in text.upper():
        for down, bits in enumerate(_GLYPH_ROWS_BY_LETTER.get(letter, "00000")):
            for across in range(3):
                if int(bits) >> (2 - across) & 1 and left + 3 * _SCALE < _WIDTH:
                    x, y = left + across * _SCALE, top + down * _SCALE
                    _draw_box(rows, x, y, x + _SCALE, y + _SCALE, _INK)
        left += 4 * _SCALE


def _encode_png(rows: list[bytearray]) -> bytes:
    head = struct.pack(">IIBBBBB", _WIDTH, _HEIGHT, 8, 3, 0, 0, 0)
    pixels = zlib.compress(b"".join(b"\0" + row for row in rows), 9)
    parts = ((b"IHDR", head), (b"PLTE", _PALETTE), (b"IDAT", pixels), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts
    )
