"""Parse one page: decode its bytes, and find its title, text, links and meta tags.

Works on any bytes in bounded time. Only encodings that browsers know are used; undecodable bytes
become U+FFFD, never an error.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from selectolax.lexbor import LexborHTMLParser, LexborNode

from stoker.base.types import MAX_TEXT_LENGTH, clean_text
from stoker.crawl.key_pages import Link
from stoker.crawl.sanitize_html import sanitize_html

SNIFF_BYTES = 1_024  # where a page declares its encoding, as in browsers
MAX_PAGE_BYTES = 1_000_000  # bytes of a page that are read

_BYTE_ORDER_MARKS = (
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)

_IN_HEADER = re.compile(r"charset\s*=\s*[\"']?([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE)
_IN_MARKUP = re.compile(rb"charset\s*=\s*[\"']?([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE)

# By the labels browsers accept; several mean a superset, as there.
_LABELS = {
    "cp1252": "iso-8859-1 iso8859-1 latin1 latin-1 l1 ascii us-ascii windows-1252 cp1252",
    "utf-8": "utf-8 utf8 unicode-1-1-utf-8",
    "utf-16-le": "utf-16 utf-16le unicode",
    "utf-16-be": "utf-16be",
    "cp932": "shift_jis shift-jis sjis x-sjis ms_kanji windows-31j cp932",
    "euc_jp": "euc-jp x-euc-jp",
    "iso2022_jp": "iso-2022-jp",
    "gb18030": "gb2312 gb_2312-80 gbk x-gbk gb18030 chinese",
    "big5hkscs": "big5 big5-hkscs x-x-big5 cn-big5",
    "cp949": "euc-kr ks_c_5601-1987 ksc5601 korean windows-949",
    "cp874": "windows-874 tis-620 iso-8859-11",
    "koi8_r": "koi8-r",
    "koi8_u": "koi8-u",
    "cp1254": "iso-8859-9 latin5 windows-1254",
    "iso8859_15": "iso-8859-15 latin9",
    **{f"cp{page}": f"windows-{page} cp{page} x-cp{page}" for page in (1250, 1251, 1253, 1255)},
    **{f"cp{page}": f"windows-{page} cp{page} x-cp{page}" for page in (1256, 1257, 1258, 866)},
    **{f"iso8859_{part}": f"iso-8859-{part}" for part in (2, 3, 4, 5, 6, 7, 8, 10, 13, 14, 16)},
}

_CODECS = {label: codec for codec, labels in _LABELS.items() for label in labels.split()}

# For pages without a true declaration: tried in turn, only when all bytes fit.
_GUESSES = ("utf-8", "cp932", "cp1252")


def decode_page(body: bytes, *, content_type: str = "") -> str:
    """Return a page's bytes as text that every store can save."""
    body = body[:MAX_PAGE_BYTES]
    for mark, codec in _BYTE_ORDER_MARKS:
        if body.startswith(mark):
            return _clean_page_text(body[len(mark) :].decode(codec, "replace"))
    codec_name = _find_declared_codec(content_type, body)
    if codec_name is not None:
        text = body.decode(codec_name, "replace")
        # A page that declares UTF-8 wrongly is most likely old, or written by hand.
        if codec_name != "utf-8" or text.count("\ufffd") < 3:
            return _clean_page_text(text)
    return _clean_page_text(_decode_by_guess(body))


def _find_declared_codec(content_type: str, body: bytes) -> str | None:
    header = _IN_HEADER.search(content_type[:200])
    if header is not None and (codec := _CODECS.get(header[1].lower())) is not None:
        return codec
    markup = _IN_MARKUP.search(body[:SNIFF_BYTES])
    if markup is not None and (codec := _CODECS.get(markup[1].decode().lower())) is not None:
        # A declaration readable as ASCII is not in an encoding of two bytes a letter.
        return "utf-8" if codec.startswith("utf-16") else codec
    return None


def _decode_by_guess(body: bytes) -> str:
    for codec in _GUESSES:
        try:
            return body.decode(codec)
        except UnicodeDecodeError as error:
            # A page cut at a limit may end inside a character.
            if error.start >= len(body) - 4:
                return body.decode(codec, "replace")
    return body.decode("utf-8", "replace")


def _clean_page_text(text: str) -> str:
    # Piece by piece, because a page may be longer than any stored value.
    pieces = range(0, len(text), MAX_TEXT_LENGTH)
    return "".join(clean_text(text[at : at + MAX_TEXT_LENGTH]) for at in pieces)


MAX_LINKS = 2_000
MAX_PAGE_TEXT_LENGTH = 100_000  # characters
_MAX_TITLE_LENGTH = 300

_BLOCKS = frozenset(
    (
        "address", "article", "aside", "blockquote", "br", "dd", "div", "dl", "dt", "fieldset",
        "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header",
        "hr", "li", "main", "nav", "ol", "option", "p", "pre", "section", "table", "td", "th", "tr",
        "ul",
    )
)  # fmt: skip

_SKIPPED = "script,style,noscript,template,svg,head,[hidden],select"


@dataclass(frozen=True, slots=True)
class MetaTags:
    generator: str = ""
    robots: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedPage:
    title: str
    text: str
    links: tuple[Link, ...]
    meta_tags: MetaTags
    markup: str  # sanitized: safe for any parser
    protected_emails: tuple[str, ...]  # encoded by a common protection against harvesters
    scripts: tuple[str, ...]  # addresses of what the page loads
    asks_for_password: bool
    needs_javascript: bool  # an empty shell that a browser would fill


def parse_page(body: bytes, *, content_type: str = "") -> ParsedPage:
    """Parse a page. Never raises: what is no page has no text."""
    markup = decode_page(body, content_type=content_type)
    safe = sanitize_html(markup)
    tree = LexborHTMLParser(safe)
    title = tree.css_first("title")
    metas = _extract_meta_tags(tree)
    links = tuple(_extract_links(tree))
    guarded = tuple(
        code
        for node in tree.css("[data-cfemail]")[:50]
        if (code := node.attributes["data-cfemail"])
    )
    password = tree.css_first('input[type="password"]') is not None
    shell = tree.css_first("#root, #app, #__next, #___gatsby, app-root") is not None
    without_script = " ".join(node.text() for node in tree.css("noscript")[:20])
    words = "" if title is None else title.text()
    for node in tree.css(_SKIPPED):
        node.decompose()
    return ParsedPage(
        title=" ".join(words.split())[:_MAX_TITLE_LENGTH],
        text=_extract_text(tree),
        links=links,
        meta_tags=metas,
        markup=safe,
        protected_emails=guarded,
        scripts=_extract_scripts(markup),
        asks_for_password=password,
        needs_javascript=shell or "enable javascript" in without_script.lower(),
    )


def _extract_text(tree: LexborHTMLParser) -> str:
    """Return the text that a visitor sees, a line per block."""
    if tree.body is None:
        return ""
    parts: list[str] = []
    length = 0
    for node in tree.body.traverse(include_text=True):
        tag = node.tag
        if tag == "-text":
            words = node.text_content or ""
            parts.append(words)
            length += len(words)
            if length > 2 * MAX_PAGE_TEXT_LENGTH:
                break
        elif tag in _BLOCKS:
            parts.append("\n")
    lines = (" ".join(line.split()) for line in "".join(parts).splitlines())
    return "\n".join(line for line in lines if line)[:MAX_PAGE_TEXT_LENGTH]


def _extract_links(tree: LexborHTMLParser) -> list[Link]:
    links: dict[str, Link] = {}
    for node in tree.css("a[href], area[href]"):
        href = (node.attributes.get("href") or "").strip()
        if href and href not in links:
            links[href] = Link(href=href, text=_get_link_text(node))
            if len(links) >= MAX_LINKS:
                break
    return list(links.values())


def _get_link_text(node: LexborNode) -> str:
    return " ".join(node.text(separator=" ").split())[:100]


def _extract_meta_tags(tree: LexborHTMLParser) -> MetaTags:
    contents: dict[str, str] = {}
    for node in tree.css("meta[content]")[:200]:
        attributes = node.attributes
        name = (attributes.get("name") or attributes.get("property") or "").lower()
        contents.setdefault(name, " ".join((attributes.get("content") or "").split())[:1_000])
    return MetaTags(
        generator=contents.get("generator", ""), robots=contents.get("robots", "").lower()
    )


_SOURCE = re.compile(r"(?:src|href)\s{0,5}=\s{0,5}[\"']([^\"'\s<>]{1,300})", re.IGNORECASE)


def _extract_scripts(markup: str) -> tuple[str, ...]:
    """Return the URLs of scripts, styles and images, in order; for hints, not visits."""
    urls = dict.fromkeys(match[1] for match in _SOURCE.finditer(markup[:300_000]))
    return tuple(list(urls)[:300])
