"""How odd sites answer: each trouble as it looks on the wire.

Asked for one address of one site, this says what is odd about the answer, or None when this
address is answered as on any other site. Pages themselves come from elsewhere.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from functools import cache
from itertools import repeat

from stoker.sandbox.http import Asked, Told, page_told, text_told
from stoker.sandbox.world.companies import Company, World
from stoker.sandbox.world.site_faults import Trouble

_SLOW = timedelta(seconds=2)

_DRIP = timedelta(milliseconds=300)

_FILLER = b"<p>" + b"There is a great deal to say about this. " * 1500 + b"</p>\n"

_INWARD = (
    "http://169.254.169.254/latest/meta-data/",
    "http://127.0.0.1:22/",
    "http://localhost/admin",
    "http://[::1]/",
    "http://10.0.0.1/",
    "http://0x7f000001/",
    "file:///etc/passwd",
    "gopher://127.0.0.1:6379/_INFO",
)

_HOPS = 25

Odd = Callable[[World, Company, Asked], Told | None]


def moved(where: str, *, status: int = 302) -> Told:
    """Send somebody elsewhere."""
    return Told(status=status, headers={"location": where, "content-type": "text/html"})


def _says(markup: str, *, status: int = 200) -> Odd:
    return lambda world, company, asked: page_told(markup, status=status)


def _shell(title: str, body: str) -> str:
    return f"<!doctype html><html><head><title>{title}</title></head><body>{body}</body></html>"


def _home_only(answer: Callable[[Company], Told]) -> Odd:
    return lambda world, company, asked: answer(company) if asked.path == "/" else None


def _alone(body: str) -> Odd:
    def answered(world: World, company: Company, asked: Asked) -> Told | None:
        if asked.path == "/":
            return page_told(_shell(company.brand, body) if body else "")
        return text_told("Not found\n", status=404)

    return answered


def _streamed(company: Company, pieces: Callable[[], Iterator[bytes]]) -> Told:
    start = f"<!doctype html><title>{company.brand}</title><h1>{company.brand}</h1>".encode()

    def all_of_it() -> Iterator[bytes]:
        yield start
        yield from pieces()

    return Told(headers={"content-type": "text/html; charset=utf-8"}, stream=all_of_it())


def _many_links() -> Iterator[bytes]:
    for start in range(0, 100_000, 500):
        yield "".join(
            f'<a href="/item/{nth}">Item {nth}</a>\n' for nth in range(start, start + 500)
        ).encode()


def _deep() -> Iterator[bytes]:
    yield from repeat(b"<div><b><i>" * 500, 67)
    yield b"deep down"


def _bomb(company: Company) -> Told:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    start = packer.compress(f"<title>{company.brand}</title>".encode())
    start += packer.flush(zlib.Z_FULL_FLUSH)

    def pieces() -> Iterator[bytes]:
        yield start
        yield from repeat(_packed_blank(), 2048)

    headers = {"content-type": "text/html", "content-encoding": "gzip"}
    return Told(headers=headers, stream=pieces())


@cache
def _packed_blank() -> bytes:
    # A full flush forgets everything before it, so that one packed block can stand any number
    # of times: two gigabytes of spaces behind two megabytes on the wire.
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(b" " * 1_048_576) + packer.flush(zlib.Z_FULL_FLUSH)


def _calendar(world: World, company: Company, asked: Asked) -> Told | None:
    if asked.path != "/events":
        return None
    try:
        day = date.fromisoformat(asked.argument("day", "2026-01-01"))
        days = [day + timedelta(days=more) for more in range(-15, 16) if more]
    except (ValueError, OverflowError):
        return page_told(_shell("Events", "<p>No such day.</p>"), status=404)
    links = "".join(f'<a href="/events?day={each}">{each:%d %B}</a>\n' for each in days)
    return page_told(_shell(f"Events on {day}", f"<h1>Events on {day}</h1>{links}"))


def _to_www(world: World, company: Company, asked: Asked) -> Told | None:
    if asked.host.startswith("www."):
        return None
    return moved(f"http://www.{company.domain}{asked.path}", status=301)


def _looping(world: World, company: Company, asked: Asked) -> Told | None:
    if asked.path == "/robots.txt":
        return None
    return moved("/here" if asked.path != "/here" else "/there")


def _chain(world: World, company: Company, asked: Asked) -> Told | None:
    if asked.path == "/" and asked.argument("hop") != str(_HOPS):
        nth = int(asked.argument("hop", "0")) if asked.argument("hop", "0").isdigit() else 0
        return moved(f"/?hop={min(nth, _HOPS) + 1}")
    return None


def _off_site(world: World, company: Company, asked: Asked) -> Told | None:
    other = world.company((company.index + 1) % world.size)
    return moved(f"http://{other.domain}{asked.path}", status=301)


def _inward(world: World, company: Company, asked: Asked) -> Told | None:
    if asked.path == "/robots.txt":
        return None
    return moved(world.draws("inward", company.index, asked.path).pick(_INWARD))


def _challenge(world: World, company: Company, asked: Asked) -> Told | None:
    page = page_told(
        _shell(
            "Just a moment...",
            "<h1>Checking your browser</h1><p>Please enable JavaScript and cookies to go on.</p>"
            '<form id="challenge-form" method="post"></form>',
        ),
        status=403,
    )
    return page.but(headers={**page.headers, "server": "shield", "x-challenge": "1"})


def _login(world: World, company: Company, asked: Asked) -> Told | None:
    if asked.path == "/robots.txt":
        return None
    if asked.path != "/login":
        return moved(f"/login?next={asked.path}")
    return page_told(
        _shell(
            "Sign in",
            '<h1>Sign in</h1><form method="post"><input name="email">'
            '<input name="password" type="password"><button>Sign in</button></form>',
        )
    )


def _cookie_wall(world: World, company: Company, asked: Asked) -> Told | None:
    if "consent=yes" in asked.headers.get("cookie", "") or asked.path == "/robots.txt":
        return None
    page = page_told(
        _shell(
            "Before you continue",
            "<h1>We value your privacy</h1><p>Accept cookies to go on.</p><button>Accept</button>",
        )
    )
    return page.but(headers={**page.headers, "set-cookie": "consent=no; Path=/"})


def _soft_404(world: World, company: Company, asked: Asked) -> Told | None:
    if not asked.path.startswith(("/item", "/listed", "/old", "/missing")):
        return None
    return page_told(_shell("Not found", "<h1>Oops! We cannot find that page.</h1>"))


def _failing(world: World, company: Company, asked: Asked) -> Told | None:
    if asked.path == "/robots.txt":  # failing there is a trouble of its own
        return None
    return page_told("<h1>Internal Server Error</h1>", status=500)


def _unavailable(world: World, company: Company, asked: Asked) -> Told | None:
    told = text_told("Down for maintenance\n", status=503)
    return told.but(headers={**told.headers, "retry-after": "120"})


def _lost(**how: bool) -> Odd:
    def answered(world: World, company: Company, asked: Asked) -> Told | None:
        return None if asked.path == "/robots.txt" else Told().but(**how)

    return answered


ODD: dict[Trouble, Odd] = {
    Trouble.THIN: _alone("<p>Welcome.</p>"),
    Trouble.EMPTY: _alone(""),
    Trouble.HANGING: _lost(hang=True),
    Trouble.RESETTING: _lost(reset=True),
    Trouble.HUGE: _home_only(lambda company: _streamed(company, lambda: repeat(_FILLER, 330))),
    Trouble.ENDLESS: _home_only(lambda company: _streamed(company, lambda: repeat(_FILLER))),
    Trouble.BOMB: _home_only(_bomb),
    Trouble.MANY_LINKS: _home_only(lambda company: _streamed(company, _many_links)),
    Trouble.DEEP_HTML: _home_only(lambda company: _streamed(company, _deep)),
    Trouble.CALENDAR: _calendar,
    Trouble.TO_WWW: _to_www,
    Trouble.TO_SECURE: lambda world, company, asked: moved(
        f"https://{company.domain}{asked.path}", status=301
    ),
    Trouble.LOOPING: _looping,
    Trouble.CHAIN: _chain,
    Trouble.OFF_SITE: _off_site,
    Trouble.INWARD: _inward,
    Trouble.NO_HOME: _home_only(lambda company: page_told("<h1>Not found</h1>", status=404)),
    Trouble.GONE: _says("<h1>Not found</h1>", status=404),
    Trouble.FAILING: _failing,
    Trouble.UNAVAILABLE: _unavailable,
    Trouble.CHALLENGE: _challenge,
    Trouble.LOGIN: _login,
    Trouble.COOKIE_WALL: _cookie_wall,
    Trouble.SCRIPT_ONLY: _says(
        _shell(
            "App",
            '<div id="root"></div><noscript>You need to enable JavaScript to run this app.'
            '</noscript><script src="/static/app.js"></script>',
        )
    ),
    Trouble.PARKED: _says(
        _shell(
            "Domain for sale",
            "<h1>This domain is for sale</h1><p>Buy this domain. Related searches: loans, hotels, "
            'insurance.</p><a href="http://parking.test/buy">Make an offer</a>',
        )
    ),
    Trouble.SOFT_404: _soft_404,
}
"""What each trouble does to an address; troubles not listed only spoil whole pages."""


def spoilt(told: Told, trouble: Trouble, asked: Asked) -> Told:
    """Return a good page as a trouble sends it."""
    if asked.path == "/robots.txt":
        return told
    match trouble:
        case Trouble.SLOW:
            return told.but(after=_SLOW)
        case Trouble.DRIPPING:
            return told.but(drip=_DRIP)
        case Trouble.CUT:
            return told.but(body=told.body[: len(told.body) // 2], lying_length=len(told.body))
        case Trouble.LYING_LENGTH:
            more = 1000 if len(asked.path) % 2 else -len(told.body) // 2
            return told.but(lying_length=len(told.body) + more)
        case Trouble.BROKEN_HTML:
            body = told.body
            for tag in (b"</p>", b"</li>", b"</ul>", b"</head>", b"</nav>", b"</title>"):
                body = body.replace(tag, b"" if tag != b"</title>" else b"</titel></title>")
            return told.but(body=b"<table><span><p " + body + b"<b><i></b><td><![CDATA[<x")
        case _:
            return told
