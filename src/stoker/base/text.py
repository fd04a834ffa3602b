"""Make text from outside harmless for the programs that open an export.

A spreadsheet takes a cell that begins like a formula for one, and a browser may take JSON for a
page. Nothing is lost, except NUL, which no store keeps: without its mark a cell is the text again.
"""

from __future__ import annotations

import json
import unicodedata
from string import ascii_letters, digits

from stoker.base.types import Json

_FORMULA_STARTS = frozenset("=+-@\t\r\n|%")

_HARMLESS = frozenset(ascii_letters + digits)  # most text begins with one of these

_ESCAPE_MARK = "'"  # spreadsheets read on as text after it, and do not show it

_HTML_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}


def escape_cell(value: str | float | None) -> str | float:
    """Return a value as it may stand in a CSV cell; numbers stay numbers, nothing is empty text.

    Text that could be taken for a formula gets a mark in front. So does text that begins with the
    mark itself: the two must differ.
    """
    if value is None:
        return ""
    if isinstance(value, int | float):
        return value
    if value[:1] in _HARMLESS and "\0" not in value:
        return value
    text = value.replace("\0", "")
    return _ESCAPE_MARK + text if text.startswith(_ESCAPE_MARK) or _is_formula_like(text) else text


def to_html_safe_json(value: Json) -> str:
    """Return compact JSON, in ASCII, that stays inert even where it is taken for HTML or script."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    # Outside of strings JSON has none of these letters, so inside is where they are.
    for letter, escaped in _HTML_ESCAPES.items():
        text = text.replace(letter, escaped)
    return text


def _is_formula_like(text: str) -> bool:
    for letter in text:
        if letter in _FORMULA_STARTS:
            return True
        # Programs that import pass over blanks and invisible letters (NBSP, BOM, ZWSP and their
        # kin, controls), and some read full-width signs as plain ones.
        if letter.isspace() or unicodedata.category(letter) in ("Cc", "Cf"):
            continue
        return unicodedata.normalize("NFKC", letter)[:1] in _FORMULA_STARTS
    return False
