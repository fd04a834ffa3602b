"""The kinds of site faults, and how common each is."""

from __future__ import annotations

from enum import StrEnum

from stoker.sandbox.random import Draws, Weighted


class SiteFault(StrEnum):
    """The kinds of sites there are."""

    FINE = "fine"  # many pages, everything in order
    THIN = "thin"  # one page that says next to nothing
    EMPTY = "empty"  # a page without a word
    SLOW = "slow"  # answers after seconds
    DRIPPING = "dripping"  # answers letter by letter
    HANGING = "hanging"  # never answers
    CUT = "cut"  # closes half-way through
    RESETTING = "resetting"  # resets the connection
    BROKEN_HTML = "broken_html"  # tags that never close, tables in spans
    DEEP_HTML = "deep_html"  # a hundred thousand levels
    HUGE = "huge"  # a page of many megabytes
    ENDLESS = "endless"  # a page that does not end
    BOMB = "bomb"  # little on the wire, very much when unpacked
    MANY_LINKS = "many_links"  # a page with a hundred thousand links
    CALENDAR = "calendar"  # every page links to the next day
    TO_WWW = "to_www"  # everything moves to www.
    TO_SECURE = "to_secure"  # asks to come back over TLS, which the sandbox does not serve
    LOOPING = "looping"  # redirects in a circle
    CHAIN = "chain"  # twenty-five redirects before the page
    OFF_SITE = "off_site"  # moved to another company's domain
    INWARD = "inward"  # redirects to private addresses
    NO_HOME = "no_home"  # the home page is not found, others are
    GONE = "gone"  # nothing is found
    FAILING = "failing"  # 500
    UNAVAILABLE = "unavailable"  # 503 with Retry-After
    CHALLENGE = "challenge"  # 403 and a puzzle
    LOGIN = "login"  # everything behind a login
    COOKIE_WALL = "cookie_wall"  # nothing before one agrees
    SCRIPT_ONLY = "script_only"  # an empty shell for JavaScript
    PARKED = "parked"  # the domain is for sale
    SOFT_404 = "soft_404"  # says 200 where there is nothing
    DUPLICATES = "duplicates"  # the same page under many query strings
    LATIN_1 = "latin_1"  # says so
    MISLABELLED = "mislabelled"  # says UTF-8, is Latin-1
    SHIFT_JIS = "shift_jis"  # says nothing about its letters
    ROBOTS_CLOSED = "robots_closed"  # robots.txt disallows all
    ROBOTS_SLOW = "robots_slow"  # robots.txt asks for long waits
    ROBOTS_FAILING = "robots_failing"  # robots.txt answers 500
    ROBOTS_HUGE = "robots_huge"  # robots.txt of ten megabytes
    ROBOTS_PAGE = "robots_page"  # robots.txt is a web page
    HIDDEN_CONTACTS = "hidden_contacts"  # addresses and numbers written to be hard to find
    INJECTION = "injection"  # text that gives orders to its reader
    LYING_LENGTH = "lying_length"  # Content-Length is wrong
    ODD_SITEMAP = "odd_sitemap"  # a sitemap with entities, foreign links and no end
    SQUATTED = "squatted"  # a stranger has taken the company's name; only where a world asks for it


_WEIGHTS: dict[SiteFault, int] = {
    SiteFault.FINE: 640,
    SiteFault.THIN: 50,
    SiteFault.HIDDEN_CONTACTS: 40,
    SiteFault.SQUATTED: 0,
}

_COMMON = (
    SiteFault.SLOW,
    SiteFault.TO_WWW,
    SiteFault.BROKEN_HTML,
    SiteFault.SCRIPT_ONLY,
    SiteFault.PARKED,
    SiteFault.CHALLENGE,
    SiteFault.GONE,
)

_SHARES = Weighted(
    [(trouble, _WEIGHTS.get(trouble, 20 if trouble in _COMMON else 4)) for trouble in SiteFault]
)


def draw_site_fault(draws: Draws) -> SiteFault:
    """Return what is odd about the next site: mostly nothing, as in the real world."""
    return draws.pick_weighted(_SHARES)
