"""Read jobs from RSS and Atom feeds, with a parser that refuses document types.

No valid feed needs entities of its own. A truncated or endless feed gives what came before. A feed
is read in a worker process; what it may hold is counted before it is taken in.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from xml.parsers import expat

from stoker.base.errors import PermanentError
from stoker.base.process_pool import Aborted, ProcessPool
from stoker.budgets.model import Health
from stoker.discovery.boards import (
    CONNECTOR,
    DEADLINE,
    HostSlot,
    acquire_immediately,
    get_if_changed,
)
from stoker.discovery.enrichment import MAX_TEXT_LENGTH
from stoker.discovery.model import (
    MAX_POSTINGS,
    MAX_REJECTS,
    Postings,
    RawPosting,
    Validators,
    parse_postings,
)
from stoker.http.client import HttpClient
from stoker.http.url import parse_url

NAME = "feed"
ACCEPT = "application/rss+xml, application/atom+xml, application/xml;q=0.9, text/xml;q=0.8"
MAX_BYTES = 5_000_000
MAX_DEPTH = 100  # elements within elements
MAX_ELEMENTS = 300_000
MAX_NAMES = 2_000  # different ones of elements and attributes; the parser keeps them all
MAX_TAG_BYTES = 64_000  # of one tag with its attributes, or one comment
_PIECE_BYTES = 16_000
_MAX_LENGTH = 4_000  # characters of one element, but for those that are texts
_ITEM_TAGS = {"item", "entry"}
_TEXT_TAGS = {"description", "summary", "content", "encoded"}  # only searched, never stored
_FIELD_TAGS = {"title", "link", "guid", "id", "pubDate", "published", "updated", "date", "location"}
_DATE_TAGS = ("published", "pubDate", "date", "updated")


class Feeds:
    """Reads feeds, wherever they are; every call waits for its `turn`."""

    name = CONNECTOR

    def __init__(
        self,
        http: HttpClient,
        *,
        turn: HostSlot = acquire_immediately,
        deadline: timedelta = DEADLINE,
        pool: ProcessPool | None = None,
    ) -> None:
        self._http, self._acquire_slot, self._deadline = http, turn, deadline
        self._pool = pool or ProcessPool()

    async def check(self) -> Health:
        """Return ok: feeds have no common host to check."""
        return Health(ok=True, detail="feeds have no common server; test each source")

    async def read_postings(
        self, url: str, *, company: str = "", known: Validators | None = None
    ) -> Postings:
        """Return what a feed lists; without a `company`, the feed's own title stands in.

        Raises as `get_if_changed`, and PermanentError when it is no feed.
        """
        answer = await get_if_changed(
            self._http,
            url,
            who=parse_url(url).host,
            turn=self._acquire_slot,
            known=known,
            accept=ACCEPT,
            most_bytes=MAX_BYTES,
            deadline=self._deadline,
        )
        if answer.body is None:
            return Postings(unchanged=True, validators=answer.validators)
        found = await self._pool.run(read_feed, answer.body, cut=answer.truncated, company=company)
        if isinstance(found, Aborted):
            raise PermanentError(f"the feed cannot be read: {found.reason}")
        return replace(found, validators=answer.validators)


def read_feed(body: bytes, *, cut: bool = False, company: str = "") -> Postings:
    """Return what a feed lists. Raises as `parse_feed`."""
    title, raws, more = parse_feed(body, cut=cut)
    return parse_postings(NAME, raws, company=company or title, more=more)


def parse_feed(body: bytes, *, cut: bool = False) -> tuple[str, list[RawPosting], bool]:
    """Return a feed's title, its postings as they are written, and whether there is more.

    Raises PermanentError when it is no feed at all, or declares a document type.
    """
    reading = _FeedParser()
    # Without namespaces: an address of theirs would be copied into the name of every element.
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = reading.start
    parser.EndElementHandler = reading.end
    parser.CharacterDataHandler = reading.text
    parser.StartDoctypeDeclHandler = _refuse_doctype
    parser.EntityDeclHandler = _refuse_doctype
    broken = ""
    try:
        for start in range(0, len(body), _PIECE_BYTES):
            # In pieces: a tag of any size would be taken in whole before we are asked.
            if start - parser.CurrentByteIndex > MAX_TAG_BYTES:
                raise ValueError("a tag is too long")
            parser.Parse(body[start : start + _PIECE_BYTES], False)
        parser.Parse(b"", True)
    except _FullError:
        cut = True
    except (expat.ExpatError, ValueError, LookupError) as error:
        if not cut:
            broken = "the feed is cut off here"
        if not reading.is_feed:
            raise PermanentError("this is not an RSS or Atom feed") from error
    if not reading.is_feed:
        raise PermanentError("this is not an RSS or Atom feed")
    if broken:
        reading.raws.append(RawPosting(where=f"item {len(reading.raws)}", parse_error=broken))
    return reading.title, reading.raws, cut


class _FullError(Exception):
    """As much was read as is taken from one feed."""


def _refuse_doctype(*_: object) -> None:
    raise PermanentError("the feed declares entities, which no honest feed needs")


class _FeedParser:
    """A feed as it is taken apart: the words of the few elements we know, item by item."""

    def __init__(self) -> None:
        self.is_feed = False
        self.title = ""
        self.raws: list[RawPosting] = []
        self._path: list[str] = []
        self._item: dict[str, str] | None = None
        self._depth = 0  # of the item's own elements; what lies deeper is about something else
        self._words: list[str] = []
        self._length = 0
        self._elements = 0
        self._names: set[str] = set()

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        name = tag.rpartition(":")[2]
        self._path.append(name)
        self._elements += 1
        self._names |= {tag, *attributes}
        if self._elements > MAX_ELEMENTS or len(self._names) > MAX_NAMES:
            raise _FullError
        if len(self._path) > MAX_DEPTH:
            raise ValueError("too deep")
        self._words, self._length = [], 0
        if len(self._path) == 1:
            self.is_feed = name in ("rss", "feed", "RDF")
            if not self.is_feed:
                raise ValueError("no feed")
        if name in _ITEM_TAGS and self._item is None:
            self._item, self._depth = {}, len(self._path)
        elif name == "link" and self._item is not None and len(self._path) == self._depth + 1:
            if attributes.get("href") and attributes.get("rel", "alternate") == "alternate":
                self._item.setdefault("link", attributes["href"][:_MAX_LENGTH])
        elif name == "guid" and attributes.get("isPermaLink", "true") == "false":
            self._path[-1] = "guid that leads nowhere"

    def text(self, words: str) -> None:
        name = self._path[-1]
        longest = (
            MAX_TEXT_LENGTH if name in _TEXT_TAGS else _MAX_LENGTH if name in _FIELD_TAGS else 0
        )
        if self._length < longest:
            self._words.append(words[: longest - self._length])
            self._length += len(words)

    def end(self, _: str) -> None:
        name = self._path.pop()
        words = "".join(self._words).strip()
        self._words, self._length = [], 0
        if self._item is None:
            if name == "title" and not self.title:
                self.title = words
        elif len(self._path) < self._depth:
            self._add_item(self._item)
            self._item = None
        elif (
            words and len(self._path) == self._depth and (name in _FIELD_TAGS or name in _TEXT_TAGS)
        ):
            self._item.setdefault("text" if name in _TEXT_TAGS else name, words)

    def _add_item(self, item: dict[str, str]) -> None:
        if len(self.raws) > MAX_POSTINGS + MAX_REJECTS:
            raise _FullError
        self.raws.append(
            RawPosting(
                where=f"item {len(self.raws)}",
                url=item.get("link") or item.get("guid") or item.get("id", ""),
                title=item.get("title", ""),
                location=item.get("location", ""),
                posted=next((item[name] for name in _DATE_TAGS if name in item), None),
                text=item.get("text", ""),
            )
        )
