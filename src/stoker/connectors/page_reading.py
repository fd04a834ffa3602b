"""What one page says: its title, its words, its links, and whether it is a page for visitors.

Works on bytes of any kind in bounded time. Contacts, technology and which links matter are other
modules' business; so is what the words mean.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from selectolax.lexbor import LexborHTMLParser, LexborNode

from stoker.connectors.lettering import lettered
from stoker.connectors.taming import tamed
from stoker.core.key_pages import Link

MOST_LINKS = 2_000
LONGEST_PAGE_TEXT = 100_000  # characters
_LONGEST_TITLE = 300

_BLOCKS = frozenset(
    [
        "address",
        "article",
        "aside",
        "blockquote",
        "br",
        "dd",
        "div",
        "dl",
        "dt",
        "fieldset",
        "figcaption",
        "figure",
        "footer",
        "form",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "header",
        "hr",
        "li",
        "main",
        "nav",
        "ol",
        "option",
        "p",
        "pre",
        "section",
        "table",
        "td",
        "th",
        "tr",
        "ul",
    ]
)
_SKIPPED = "script,style,noscript,template,svg,head,[hidden],select"


@dataclass(frozen=True, slots=True)
class Metas:
    """What a page tells programs about itself."""

    description: str = ""
    generator: str = ""
    robots: str = ""
    canonical: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One page as it was understood."""

    title: str
    text: str
    links: tuple[Link, ...]
    metas: Metas
    markup: str  # tamed: safe for any parser
    hidden_emails: tuple[str, ...]  # as a common guard against harvesters writes them
    scripts: tuple[str, ...]  # addresses of what the page loads
    asks_for_password: bool
    wants_script: bool  # an empty shell that a browser would fill


def read_page(body: bytes, *, content_type: str = "") -> Reading:
    """Return what a page says. Never raises: what is no page says nothing."""
    markup = lettered(body, content_type=content_type)
    safe = tamed(markup)
    tree = LexborHTMLParser(safe)
    title = tree.css_first("title")
    metas = _metas(tree)
    links = tuple(_links(tree))
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
    return Reading(
        title=" ".join(words.split())[:_LONGEST_TITLE],
        text=_text(tree),
        links=links,
        metas=metas,
        markup=safe,
        hidden_emails=guarded,
        scripts=_scripts(markup),
        asks_for_password=password,
        wants_script=shell or "enable javascript" in without_script.lower(),
    )


def _text(tree: LexborHTMLParser) -> str:
    """Return the words a visitor sees, a line per block."""
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
            if length > 2 * LONGEST_PAGE_TEXT:
                break
        elif tag in _BLOCKS:
            parts.append("\n")
    lines = (" ".join(line.split()) for line in "".join(parts).splitlines())
    return "\n".join(line for line in lines if line)[:LONGEST_PAGE_TEXT]


def _links(tree: LexborHTMLParser) -> list[Link]:
    links: dict[str, Link] = {}
    for node in tree.css("a[href], area[href]"):
        href = (node.attributes.get("href") or "").strip()
        if href and href not in links:
            links[href] = Link(href=href, text=_label(node))
            if len(links) >= MOST_LINKS:
                break
    return list(links.values())


def _label(node: LexborNode) -> str:
    return " ".join(node.text(separator=" ").split())[:100]


def _metas(tree: LexborHTMLParser) -> Metas:
    said: dict[str, str] = {}
    for node in tree.css("meta[content]")[:200]:
        attributes = node.attributes
        name = (attributes.get("name") or attributes.get("property") or "").lower()
        said.setdefault(name, " ".join((attributes.get("content") or "").split())[:1_000])
    canonical = tree.css_first('link[rel="canonical"]')
    return Metas(
        description=said.get("description") or said.get("og:description", ""),
        generator=said.get("generator", ""),
        robots=said.get("robots", "").lower(),
        canonical="" if canonical is None else (canonical.attributes.get("href") or ""),
    )


_SOURCE = re.compile(r"(?:src|href)\s{0,5}=\s{0,5}[\"']([^\"'\s<>]{1,300})", re.IGNORECASE)


def _scripts(markup: str) -> tuple[str, ...]:
    """Return addresses of scripts, styles and pictures, first ones first; for hints, not visits."""
    found = dict.fromkeys(match[1] for match in _SOURCE.finditer(markup[:300_000]))
    return tuple(list(found)[:300])
