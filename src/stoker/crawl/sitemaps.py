"""List the pages of a sitemap, read as plain text and not as XML.

URLs are found by their tags alone: nothing is expanded, included or looked up.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from html import unescape

from stoker.base.types import clean_text

MAX_SITEMAP_BYTES = 5_000_000  # unpacked
MAX_SITEMAP_URLS = 50_000  # the format's own limit
_MAX_URL_LENGTH = 2_000
_LOC = re.compile(r"<loc>\s{0,100}(?:<!\[CDATA\[)?([^<\]]{1,2100})", re.IGNORECASE)
_IS_INDEX = re.compile(r"<sitemapindex[\s>]", re.IGNORECASE)
_ENTITIES = re.compile(r"<!(?:DOCTYPE|ENTITY)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sitemap:
    pages: tuple[str, ...] = ()
    maps: tuple[str, ...] = ()
    refused: str = ""  # why nothing was taken from it


def parse_sitemap(body: bytes, *, most: int = MAX_SITEMAP_URLS) -> Sitemap:
    """Return what a sitemap lists, at most `most` URLs. Never raises."""
    plain = _decompress(body)
    if plain is None:
        return Sitemap(refused="it could not be unpacked")
    text = plain[:MAX_SITEMAP_BYTES].decode("utf-8", "replace")
    if _ENTITIES.search(text[:10_000]):
        return Sitemap(refused="it declares entities, which no honest sitemap needs")
    if "<" not in text[:1_000]:
        listed = (line.strip() for line in text.splitlines()[:most])
        return Sitemap(pages=tuple(clean_text(line) for line in listed if _is_url(line)))
    urls: dict[str, None] = {}
    for match in _LOC.finditer(text):
        address = unescape(match[1].strip())
        if _is_url(address):
            urls[clean_text(address)] = None
            if len(urls) >= most:
                break
    if _IS_INDEX.search(text[:10_000]):
        return Sitemap(maps=tuple(urls))
    return Sitemap(pages=tuple(urls))


def _decompress(body: bytes) -> bytes | None:
    """Return the file decompressed, only as far as we would read it."""
    if not body.startswith(b"\x1f\x8b"):
        return body
    try:
        return zlib.decompressobj(31).decompress(body, MAX_SITEMAP_BYTES)
    except zlib.error:
        return None


def _is_url(text: str) -> bool:
    return text.startswith(("http://", "https://")) and len(text) <= _MAX_URL_LENGTH
