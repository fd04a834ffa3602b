"""Markup made harmless for the parser behind it: few tags, few attributes, nothing to run.

A browser's parser takes time that grows with the square of open tags, and of attributes in a tag;
one page could hold a worker for minutes. So a page is first cut into tags by the same rules, in
one pass, and only what readers look at is written out again. What pages mean is not known here.
"""

from __future__ import annotations

import re
from collections import Counter
from html import unescape

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
