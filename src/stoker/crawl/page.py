"""Parse one page: sanitize it, decode its bytes, and find its title, text, links and meta tags.

Works on any bytes in bounded time. Only encodings that browsers know are used; undecodable bytes
become U+FFFD, never an error. Markup is made harmless first: few tags, few attributes.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from dataclasses import dataclass
from html import unescape
from itertools import islice

from selectolax.lexbor import LexborHTMLParser, LexborNode

from stoker.accounts.evidence import limit_marks
from stoker.base.types import MAX_TEXT_LENGTH, clean_text
from stoker.crawl.key_pages import Link

MAX_MARKUP_LENGTH = 1_000_000  # characters that are looked at
MAX_TAGS = 6_000  # elements; a real page has some hundred, a very large one a few thousand
MAX_ATTRIBUTE_LENGTH = 2_000
_MAX_NAME_LENGTH = 40
MAX_DATA_LENGTH = 200_000  # characters of one block of linked data

# One tag as browsers cut it: quotes only count after an equals sign. Every part is possessive and
# consumes what it matched, so that no letter is read twice.
_ATTRIBUTE = (
    r"[^\s/>][^\s/>=]*+(?:\s*+=\s*+(?:\"[^\"]*+(?:\"|\Z)|'[^']*+(?:'|\Z)|(?![\"'>])[^\s>]++)?+)?+"
)

_TAG = re.compile(
    r"<(?:(/?)([a-zA-Z][^\s/>]*+)((?:[\s/]++|" + _ATTRIBUTE + r")*+)(?:>|\Z)|(!--)|[!?/])"
)

_PAIR = re.compile(
    r"([^\s/>=][^\s/>=]*+)(?:\s*+=\s*+(?:\"([^\"]*+)(?:\"|\Z)|'([^']*+)(?:'|\Z)|([^\s>\"'][^\s>]*+))?+)?+"
)

_COMMENT_END = re.compile(r"-->|--!>")

_ALLOWED_ATTRIBUTES = frozenset(
    (
        "href", "rel", "type", "name", "content", "property", "charset", "itemprop", "itemscope",
        "itemtype", "id", "src", "lang", "alt", "data-cfemail", "datetime", "http-equiv", "action",
        "value", "hidden", "aria-hidden",
    )
)  # fmt: skip

# Elements whose content is not markup, and nothing for readers.
_OPAQUE = frozenset(
    (
        "script", "style", "iframe", "noembed", "noframes", "xmp", "plaintext", "svg", "math",
        "template",
    )
)  # fmt: skip

_WORDS_ONLY = frozenset({"title", "textarea"})

_INLINE = frozenset(
    (
        "abbr", "b", "bdi", "cite", "code", "em", "font", "i", "mark", "s", "small", "span",
        "strong", "sub", "sup", "u",
    )
)  # fmt: skip

_VOID = frozenset(
    (
        "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param",
        "source", "track", "wbr", "frame",
    )
)  # fmt: skip

_HIDDEN_STYLE = re.compile(
    r"(?:display:none|visibility:hidden|font-size:0(?![.1-9])|opacity:0(?![.1-9]))"
)

_BLANKS = re.compile(r"\s+")
_NOT_IN_NAMES = re.compile(r"[^a-z0-9:_-]")


def sanitize_html(markup: str) -> str:
    """Return a page's markup with a bounded number of small tags, in linear time.

    What the parser behind it sees is balanced, quoted and short; scripts and hidden parts are gone.
    """
    out: list[str] = []
    opened: Counter[str] = Counter()
    at, tags = 0, 0
    markup = markup[:MAX_MARKUP_LENGTH]
    while tags < MAX_TAGS and (tag := _TAG.search(markup, at)) is not None:
        out.append(markup[at : tag.start()])
        at = tag.end()
        if tag[2] is None:
            at = _find_comment_end(markup, tag)
            continue
        name = tag[2].lower()
        if len(name) > _MAX_NAME_LENGTH or not name.isalnum():
            name = _NOT_IN_NAMES.sub("", name[:_MAX_NAME_LENGTH]) or "x"
        if tag[1]:
            # Browsers ignore an end tag without a start tag, but only after a long search.
            if opened[name] > 0:
                opened[name] -= 1
                # A line break, so that the words after a block do not join those inside it.
                out.append(f"</{name}>" if name in _INLINE else f"</{name}>\n")
            continue
        if name in _OPAQUE:
            content, at = _read_content(markup, name, at)
            if name == "script" and _is_data(tag[3]) and "<!--" not in content:
                out.append(
                    f'<script type="application/ld+json">{content[:MAX_DATA_LENGTH]}</script>'
                )
            continue
        tags += 1
        out.append(_write_tag(name, tag[3]))
        if name in _WORDS_ONLY:
            content, at = _read_content(markup, name, at)
            out.append(content.replace("<", "&lt;") + f"</{name}>")
        elif name not in _VOID:
            opened[name] += 1
    if tags < MAX_TAGS:
        out.append(markup[at:])
    return "".join(out)


def _find_comment_end(markup: str, tag: re.Match[str]) -> int:
    """Return where a comment, or what browsers take for one, ends."""
    if tag[4]:
        if markup.startswith((">", "->"), tag.end()):
            return markup.index(">", tag.end()) + 1
        end = _COMMENT_END.search(markup, tag.end())
        return len(markup) if end is None else end.end()
    end_at = markup.find(">", tag.end())
    return len(markup) if end_at < 0 else end_at + 1


def _read_content(markup: str, name: str, at: int) -> tuple[str, int]:
    """Return the content of an element, and where its end tag ends."""
    end = _ENDS[name].search(markup, at)
    if end is None:
        return markup[at:], len(markup)
    return markup[at : end.start()], end.end()


_ENDS: dict[str, re.Pattern[str]] = {
    name: re.compile(rf"</{name}[^>]*+(?:>|\Z)", re.IGNORECASE) for name in _OPAQUE | _WORDS_ONLY
}


def _is_data(attributes: str) -> bool:
    return "ld+json" in attributes[:MAX_ATTRIBUTE_LENGTH].lower()


def _write_tag(name: str, attributes: str) -> str:
    """Return a tag with the allowed attributes, each once, quoted and bounded."""
    if not attributes or attributes.isspace():
        return f"<{name}>"
    allowed: dict[str, str] = {}
    for pair in _PAIR.finditer(attributes):
        key = pair[1].lower()
        value = pair[2] or pair[3] or pair[4] or ""
        if key == "style":
            if _HIDDEN_STYLE.search(
                _BLANKS.sub("", unescape(value[:MAX_ATTRIBUTE_LENGTH])).lower()
            ):
                allowed["hidden"] = ""
        elif key in _ALLOWED_ATTRIBUTES and key not in allowed:
            allowed[key] = value[:MAX_ATTRIBUTE_LENGTH].replace('"', "&quot;")
    return f"<{name}" + "".join(f' {key}="{value}"' for key, value in allowed.items()) + ">"


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

BLOCK_TAGS = frozenset(
    (
        "address", "article", "aside", "blockquote", "br", "dd", "div", "dl", "dt", "fieldset",
        "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header",
        "hr", "li", "main", "nav", "ol", "option", "p", "pre", "section", "table", "td", "th", "tr",
        "ul",
    )
)  # fmt: skip

HIDDEN_PARTS = "script,style,noscript,template,svg,head,[hidden],select"


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedPage:
    text: str
    title: str = ""
    links: tuple[Link, ...] = ()
    generator: str = ""  # what made the page, as its meta tags say
    robots: str = ""  # what its meta tags ask of crawlers
    markup: str = ""  # sanitized: safe for any parser
    protected_emails: tuple[str, ...] = ()  # encoded by a common protection against harvesters
    scripts: tuple[str, ...] = ()  # addresses of what the page loads
    asks_for_password: bool = False
    needs_javascript: bool = False  # an empty shell that a browser would fill


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
    without_script = " ".join(get_node_text(node) for node in tree.css("noscript")[:20])
    words = "" if title is None else get_node_text(title)
    for node in tree.css(HIDDEN_PARTS):
        node.decompose()
    return ParsedPage(
        title=" ".join(words.split())[:_MAX_TITLE_LENGTH],
        text=_extract_text(tree),
        links=links,
        generator=metas.get("generator", ""),
        robots=metas.get("robots", "").lower(),
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
        elif tag in BLOCK_TAGS:
            parts.append("\n")
    lines = (" ".join(line.split()) for line in "".join(parts).splitlines())
    text = "\n".join(line for line in lines if line)[:MAX_PAGE_TEXT_LENGTH]
    # One letter can be eighteen when a text is normalized, as it is for each comparison.
    while len(unicodedata.normalize("NFKC", limit_marks(text))) > 2 * MAX_PAGE_TEXT_LENGTH:
        text = text[: len(text) // 2]
    return text


def _extract_links(tree: LexborHTMLParser) -> list[Link]:
    links: dict[str, Link] = {}
    for node in tree.css("a[href], area[href]"):
        href = (node.attributes.get("href") or "").strip()
        if href and href not in links:
            links[href] = Link(href=href, text=get_node_text(node, separator=" ", most=100))
            if len(links) >= MAX_LINKS:
                break
    return list(links.values())


def get_node_text(node: LexborNode, *, separator: str = "", most: int = 2_000) -> str:
    """Return the first characters of an element's text, in words with one space between them.

    Nested elements share their text: reading all of it for each of them would never end.
    """
    parts: list[str] = []
    room = 2 * most
    for part in islice(node.traverse(include_text=True), most):
        if part.tag == "-text":
            parts.append((part.text_content or "")[:room])
            room -= len(parts[-1])
            if room <= 0:
                break
    return " ".join(separator.join(parts).split())[:most]


def _extract_meta_tags(tree: LexborHTMLParser) -> dict[str, str]:
    contents: dict[str, str] = {}
    for node in tree.css("meta[content]")[:200]:
        attributes = node.attributes
        name = (attributes.get("name") or attributes.get("property") or "").lower()
        contents.setdefault(name, " ".join((attributes.get("content") or "").split())[:1_000])
    return contents


_SOURCE = re.compile(r"(?:src|href)\s{0,5}=\s{0,5}[\"']([^\"'\s<>]{1,300})", re.IGNORECASE)


def _extract_scripts(markup: str) -> tuple[str, ...]:
    """Return the URLs of scripts, styles and images, in order; for hints, not visits."""
    urls = dict.fromkeys(match[1] for match in _SOURCE.finditer(markup[:300_000]))
    return tuple(list(urls)[:300])
