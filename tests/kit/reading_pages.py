"""Pages as the crawler hands them to extractors, made of markup in a test."""

from datetime import UTC, datetime

from stoker.crawl.extract import read_page
from stoker.crawl.model import Page, PageState

NOW = datetime(2026, 11, 16, 2, tzinfo=UTC)


def page(markup, *, url="http://acme.test/", kind="home"):
    body = markup.encode() if isinstance(markup, str) else markup
    reading = read_page(body, content_type="", url=url, kind=kind)
    return Page(
        url=url,
        kind=kind,
        title=reading.title,
        text=reading.text,
        facts=reading.facts,
        seen=PageState(url=url, status=200, seen_at=NOW, changed_at=NOW),
    )
