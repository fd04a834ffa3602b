"""Which pages a company's site has, where they are, and which version of each a night shows.

Addresses differ from site to site as they do in the real world. A page changes at a rate of its
own, from never to every night; a night that brings no change brings the same bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from stoker.sandbox.random import Lots
from stoker.sandbox.world.companies import Company, World
from stoker.sandbox.world.site_faults import Trouble

FIRST_NIGHT = datetime(2026, 1, 1, 17, tzinfo=UTC)

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

_ALWAYS = ("about", "contact", "privacy")

_POSTS = 6

_RATES = Lots(((0.0, 50), (1 / 90, 20), (1 / 30, 14), (1 / 7, 10), (0.5, 4), (1.0, 2)))


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


class Maps(StrEnum):
    """How a site lists its pages."""

    PLAIN = "plain"
    INDEX = "index"
    GZIP = "gzip"
    NONE = "none"


_STYLES = Lots(((Style.JSON_LD, 45), (Style.MICRODATA, 10), (Style.META, 25), (Style.PLAIN, 20)))

_VALIDATORS = Lots(
    (
        (Validators.BOTH, 45),
        (Validators.ETAG, 15),
        (Validators.WEAK, 10),
        (Validators.DATE, 15),
        (Validators.NONE, 15),
    )
)

_MAPS = Lots(((Maps.PLAIN, 45), (Maps.INDEX, 20), (Maps.GZIP, 10), (Maps.NONE, 25)))

_DELAYS = Lots(((0, 93), (1, 5), (2, 2)))


class Place(NamedTuple):
    """One page of a site: what kind it is, and how often it changes."""

    path: str
    kind: str  # home, about, contact, …, post
    rate: float  # changes a night
    phase: float  # how far the first change had come on the first night

    def version(self, night: int) -> int:
        """Return how often the page had changed by that night."""
        return int(max(night, 0) * self.rate + self.phase)

    def changed_at(self, version: int) -> datetime:
        """Return when a version was put up."""
        nights = (version - self.phase) / self.rate if version and self.rate else 0.0
        return FIRST_NIGHT + timedelta(days=max(0, -int(-nights // 1)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """One site: its pages, and its habits."""

    places: dict[str, Place]  # by path
    style: Style
    validators: Validators
    maps: Maps
    gzip: bool
    crawl_delay: int  # seconds; 0 is not said
    generator: int

    def of_kind(self, kind: str) -> list[Place]:
        """Return the pages of a kind."""
        return [place for place in self.places.values() if place.kind == kind]


def layout_of(world: World, company: Company) -> Layout:
    """Return how a company's site is laid out, every time the same."""
    draws = world.draws("layout", company.index)
    kinds = {"/": "home"}
    for kind, paths in _PATHS.items():
        path = draws.pick(paths)
        if kind in _ALWAYS or draws.chance(0.7):
            kinds[path] = kind
            if kind == "blog":
                kinds |= {f"{path}/{nth}": "post" for nth in range(1, draws.between(1, _POSTS) + 1)}
    style = draws.weighted(_STYLES)
    return Layout(
        places={
            path: Place(path, kind, draws.weighted(_RATES), draws.share())
            for path, kind in kinds.items()
        },
        style=style if company.trouble is not Trouble.HIDDEN_CONTACTS else Style.PLAIN,
        validators=draws.weighted(_VALIDATORS),
        maps=draws.weighted(_MAPS),
        gzip=draws.chance(0.6),
        crawl_delay=draws.weighted(_DELAYS),
        generator=draws.below(1000),
    )
