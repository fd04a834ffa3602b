"""The settings of the crawler, and of reading the pages it fetched."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar

from stoker.config.fields import (
    BOOLEAN,
    TEXT,
    Section,
    integer,
    number,
    setting,
    tenant_setting,
)
from stoker.rate_limits.rate_limit import Rate


@dataclass(frozen=True, kw_only=True)
class CrawlSettings(Section):
    """How company sites are read."""

    own_key: ClassVar[bool] = False  # no site wants a key

    gap_s: float = setting(
        number(0.001, 3600),
        0.5,
        "Seconds between two requests to one host; more if its robots.txt asks for more.",
    )
    concurrency: int = setting(integer(1, 10_000), 32, "Pages read at once, over all hosts.")
    shallow_units: int | None = tenant_setting(
        integer(1, 1000), None, "Pull units of a shallow lookup; pulls.shallow_units, if not set."
    )
    deep_units: int | None = tenant_setting(
        integer(1, 1000), None, "Pull units of a deep lookup; pulls.deep_units, if not set."
    )

    max_pages: int = setting(integer(1, 1000), 6, "Pages read per company.", "CRAWL_MAX_PAGES")
    timeout_s: float = setting(
        number(0.1, 600), 15.0, "Seconds a page may take.", "CRAWLER_TIMEOUT_S"
    )
    user_agent: str = setting(
        TEXT,
        "Stoker/0.1 (+https://example.invalid/stoker; contact: set CRAWLER_USER_AGENT)",
        "The crawler's User-Agent; put your contact in it.",
        "CRAWLER_USER_AGENT",
    )
    persist_corpus: bool = setting(
        BOOLEAN,
        False,
        "Whether the text of a company's pages is stored; deleted after retention.days.",
        "PERSIST_CRAWL_CORPUS",
    )

    def to_rate(self) -> Rate:
        """Return how fast pages may be read, over all hosts; each host has a gap of its own."""
        return Rate(calls=1000, per=timedelta(seconds=1), burst=500)


@dataclass(frozen=True, kw_only=True)
class ExtractSettings(Section):
    """How facts are taken from texts."""

    corpus_char_limit: int = setting(
        integer(100, 10_000_000),
        50_000,
        "The maximum number of characters of text read per company.",
        "EXTRACT_CORPUS_CHAR_LIMIT",
    )
