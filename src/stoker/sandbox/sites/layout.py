"""Which pages a company's site has, their paths, and which version of each a night shows.

Paths differ from site to site. A page changes at its own rate, from never to every night; a night
without a change serves the same bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from stoker.sandbox.random import Weighted
from stoker.sandbox.world.companies import FIRST_NIGHT, Company, World
from stoker.sandbox.world.site_faults import SiteFault

_PATHS: dict[str, tuple[str, ...]] = {
    "about": ("/about", "/about-us", "/company/about.html", "/who-we-are"),
    "contact": ("/contact", "/contact-us", "/contact.html", "/get-in-touch"),
    "team": ("/team", "/our-team", "/about/team", "/people.html"),
    "careers": ("/careers", "/jobs", "/join-us", "/careers.html"),
    "pricing": ("/pricing", "/plans", "/pricing.html"),
    "products": ("/products", "/services", "/solutions", "/what-we-do"),
    "blog": ("/blog", "/news", "/insights"),
    "privacy": ("/privacy", "/privacy-policy"),
}

_REQUIRED_KINDS = ("about", "contact", "privacy")
_BLOG_POSTS = 6
_RATES = Weighted(((0.0, 50), (1 / 90, 20), (1 / 30, 14), (1 / 7, 10), (0.5, 4), (1.0, 2)))


class Style(StrEnum):
    """How a site tells machines what it is about."""

    JSON_LD = "json_ld"
    MICRODATA = "microdata"
    META = "meta"
    PLAIN = "plain"


class Validators(StrEnum):
    """What a site offers to those who have seen a page before."""

    BOTH = "both"
    ETAG = "etag"
    WEAK = "weak"
    DATE = "date"
    NONE = "none"


class SitemapStyle(StrEnum):
    """How a site lists its pages."""

    PLAIN = "plain"
    INDEX = "index"
    GZIP = "gzip"
    NONE = "none"


_STYLES = Weighted(
    ((Style.JSON_LD, 45), (Style.MICRODATA, 10), (Style.META, 25), (Style.PLAIN, 20))
)

_VALIDATORS = Weighted(
    (
        (Validators.BOTH, 45),
        (Validators.ETAG, 15),
        (Validators.WEAK, 10),
        (Validators.DATE, 15),
        (Validators.NONE, 15),
    )
)

_MAPS = Weighted(
    (
        (SitemapStyle.PLAIN, 45),
        (SitemapStyle.INDEX, 20),
        (SitemapStyle.GZIP, 10),
        (SitemapStyle.NONE, 25),
    )
)

_DELAYS = Weighted(((0, 93), (1, 5), (2, 2)))


class SitePage(NamedTuple):
    """One page of a site: what kind it is, and how often it changes."""

    path: str
    kind: str  # home, about, contact, …, post
    rate: float  # changes a night
    phase: float  # how far the first change had come on the first night

    def count_changes(self, night: int) -> int:
        return int(max(night, 0) * self.rate + self.phase)

    def get_changed_at(self, version: int) -> datetime:
        nights = (version - self.phase) / self.rate if version and self.rate else 0.0
        return FIRST_NIGHT + timedelta(days=max(0, -int(-nights // 1)))


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteLayout:
    """One site: its pages, and its habits."""

    pages: dict[str, SitePage]  # by path
    style: Style
    validators: Validators
    maps: SitemapStyle
    gzip: bool
    crawl_delay: int  # seconds; 0: none given
    generator: int

    def list_kind(self, kind: str) -> list[SitePage]:
        return [place for place in self.pages.values() if place.kind == kind]


def build_layout(world: World, company: Company) -> SiteLayout:
    """Return how a company's site is laid out, every time the same."""
    draws = world.build_draws("layout", company.index)
    kinds = {"/": "home"}
    for kind, paths in _PATHS.items():
        path = draws.pick(paths)
        drawn = kind in _REQUIRED_KINDS or draws.draw_bool(0.7)
        if drawn or (kind == "team" and company.trouble is SiteFault.SQUATTED):
            kinds[path] = kind
            if kind == "blog":
                kinds |= {
                    f"{path}/{nth}": "post"
                    for nth in range(1, draws.draw_between(1, _BLOG_POSTS) + 1)
                }
    style = draws.pick_weighted(_STYLES)
    return SiteLayout(
        pages={
            path: SitePage(path, kind, draws.pick_weighted(_RATES), draws.draw_share())
            for path, kind in kinds.items()
        },
        style=style if company.trouble is not SiteFault.HIDDEN_CONTACTS else Style.PLAIN,
        validators=draws.pick_weighted(_VALIDATORS),
        maps=draws.pick_weighted(_MAPS),
        gzip=draws.draw_bool(0.6),
        crawl_delay=draws.pick_weighted(_DELAYS),
        generator=draws.draw_below(1000),
    )
