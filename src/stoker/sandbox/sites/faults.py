"""How faulty sites answer: each site fault on the wire.

A handler returns the faulty response for one URL of a site, or None when this URL is answer_fault
normally.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from functools import cache
from itertools import repeat

from stoker.sandbox.http import Request, Response, to_page_response, to_text_response
from stoker.sandbox.world.companies import Company, World
from stoker.sandbox.world.site_faults import SiteFault

_SLOW_DELAY = timedelta(seconds=2)
_DRIP_DELAY = timedelta(milliseconds=300)
_FILLER = b"<p>" + b"There is a great deal to say about this. " * 1500 + b"</p>\n"

_PRIVATE_URLS = (
    "http://169.254.169.254/latest/meta-data/",
    "http://127.0.0.1:22/",
    "http://localhost/admin",
    "http://[::1]/",
    "http://10.0.0.1/",
    "http://0x7f000001/",
    "file:///etc/passwd",
    "gopher://127.0.0.1:6379/_INFO",
)

_MAX_HOPS = 25
FaultHandler = Callable[[World, Company, Request], Response | None]


def redirect(where: str, *, status: int = 302) -> Response:
    return Response(status=status, headers={"location": where, "content-type": "text/html"})


def _answer_page(markup: str, *, status: int = 200) -> FaultHandler:
    return lambda world, company, request: to_page_response(markup, status=status)


def _build_page(title: str, body: str) -> str:
    return f"<!doctype html><html><head><title>{title}</title></head><body>{body}</body></html>"


def _for_home_only(answer: Callable[[Company], Response]) -> FaultHandler:
    return lambda world, company, request: answer(company) if request.path == "/" else None


def _answer_with(body: str) -> FaultHandler:
    def answer_fault(world: World, company: Company, request: Request) -> Response | None:
        if request.path == "/":
            return to_page_response(_build_page(company.brand, body) if body else "")
        return to_text_response("Not found\n", status=404)

    return answer_fault


def _stream(company: Company, pieces: Callable[[], Iterator[bytes]]) -> Response:
    start = f"<!doctype html><title>{company.brand}</title><h1>{company.brand}</h1>".encode()

    def all_of_it() -> Iterator[bytes]:
        yield start
        yield from pieces()

    return Response(headers={"content-type": "text/html; charset=utf-8"}, stream=all_of_it())


def _iterate_links() -> Iterator[bytes]:
    for start in range(0, 100_000, 500):
        yield "".join(
            f'<a href="/item/{nth}">Item {nth}</a>\n' for nth in range(start, start + 500)
        ).encode()


def _iterate_deep_html() -> Iterator[bytes]:
    yield from repeat(b"<div><b><i>" * 500, 67)
    yield b"deep down"


def _build_gzip_bomb(company: Company) -> Response:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    start = packer.compress(f"<title>{company.brand}</title>".encode())
    start += packer.flush(zlib.Z_FULL_FLUSH)

    def pieces() -> Iterator[bytes]:
        yield start
        yield from repeat(_compress_blank(), 2048)

    headers = {"content-type": "text/html", "content-encoding": "gzip"}
    return Response(headers=headers, stream=pieces())


@cache
def _compress_blank() -> bytes:
    # A full flush forgets everything before it, so that one packed block can stand any number
    # of times: two gigabytes of spaces behind two megabytes on the wire.
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(b" " * 1_048_576) + packer.flush(zlib.Z_FULL_FLUSH)


def _serve_calendar(world: World, company: Company, request: Request) -> Response | None:
    if request.path != "/events":
        return None
    try:
        day = date.fromisoformat(request.get_argument("day", "2026-01-01"))
        days = [day + timedelta(days=more) for more in range(-15, 16) if more]
    except (ValueError, OverflowError):
        return to_page_response(_build_page("Events", "<p>No such day.</p>"), status=404)
    links = "".join(f'<a href="/events?day={each}">{each:%d %B}</a>\n' for each in days)
    return to_page_response(_build_page(f"Events on {day}", f"<h1>Events on {day}</h1>{links}"))


def _redirect_to_www(world: World, company: Company, request: Request) -> Response | None:
    if request.host.startswith("www."):
        return None
    return redirect(f"http://www.{company.domain}{request.path}", status=301)


def _redirect_in_loop(world: World, company: Company, request: Request) -> Response | None:
    return redirect("/here" if request.path != "/here" else "/there")


def _redirect_in_chain(world: World, company: Company, request: Request) -> Response | None:
    if request.path == "/" and request.get_argument("hop") != str(_MAX_HOPS):
        return redirect(f"/?hop={min(request.get_number('hop', 0), _MAX_HOPS) + 1}")
    return None


def _redirect_off_site(world: World, company: Company, request: Request) -> Response | None:
    other = world.get_company((company.index + 1) % world.size)
    return redirect(f"http://{other.domain}{request.path}", status=301)


def _redirect_to_private(world: World, company: Company, request: Request) -> Response | None:
    return redirect(world.build_draws("inward", company.index, request.path).pick(_PRIVATE_URLS))


def _serve_challenge(world: World, company: Company, request: Request) -> Response | None:
    page = to_page_response(
        _build_page(
            "Just a moment...",
            "<h1>Checking your browser</h1><p>Please enable JavaScript and cookies to go on.</p>"
            '<form id="challenge-form" method="post"></form>',
        ),
        status=403,
    )
    return page.replace_fields(headers={**page.headers, "server": "shield", "x-challenge": "1"})


def _serve_login(world: World, company: Company, request: Request) -> Response | None:
    if request.path != "/login":
        return redirect(f"/login?next={request.path}")
    return to_page_response(
        _build_page(
            "Sign in",
            '<h1>Sign in</h1><form method="post"><input name="email">'
            '<input name="password" type="password"><button>Sign in</button></form>',
        )
    )


def _serve_cookie_wall(world: World, company: Company, request: Request) -> Response | None:
    if "consent=yes" in request.headers.get("cookie", ""):
        return None
    page = to_page_response(
        _build_page(
            "Before you continue",
            "<h1>We value your privacy</h1><p>Accept cookies to go on.</p><button>Accept</button>",
        )
    )
    return page.replace_fields(headers={**page.headers, "set-cookie": "consent=no; Path=/"})


def _serve_soft_404(world: World, company: Company, request: Request) -> Response | None:
    if not request.path.startswith(("/item", "/listed", "/old", "/missing")):
        return None
    return to_page_response(_build_page("Not found", "<h1>Oops! We cannot find that page.</h1>"))


def _serve_unavailable(world: World, company: Company, request: Request) -> Response | None:
    response = to_text_response("Down for maintenance\n", status=503)
    return response.replace_fields(headers={**response.headers, "retry-after": "120"})


def _but_robots(answer: FaultHandler) -> FaultHandler:
    """Leave robots.txt as it is: failing there is a trouble of its own."""
    return lambda world, company, request: (
        None if request.path == "/robots.txt" else answer(world, company, request)
    )


FAULT_HANDLERS: dict[SiteFault, FaultHandler] = {
    SiteFault.THIN: _answer_with("<p>Welcome.</p>"),
    SiteFault.EMPTY: _answer_with(""),
    SiteFault.HANGING: _but_robots(lambda *_: Response(hang=True)),
    SiteFault.RESETTING: _but_robots(lambda *_: Response(reset=True)),
    SiteFault.HUGE: _for_home_only(lambda company: _stream(company, lambda: repeat(_FILLER, 330))),
    SiteFault.ENDLESS: _for_home_only(lambda company: _stream(company, lambda: repeat(_FILLER))),
    SiteFault.BOMB: _for_home_only(_build_gzip_bomb),
    SiteFault.MANY_LINKS: _for_home_only(lambda company: _stream(company, _iterate_links)),
    SiteFault.DEEP_HTML: _for_home_only(lambda company: _stream(company, _iterate_deep_html)),
    SiteFault.CALENDAR: _serve_calendar,
    SiteFault.TO_WWW: _redirect_to_www,
    SiteFault.TO_SECURE: lambda world, company, request: redirect(
        f"https://{company.domain}{request.path}", status=301
    ),
    SiteFault.LOOPING: _but_robots(_redirect_in_loop),
    SiteFault.CHAIN: _redirect_in_chain,
    SiteFault.OFF_SITE: _redirect_off_site,
    SiteFault.INWARD: _but_robots(_redirect_to_private),
    SiteFault.NO_HOME: _for_home_only(
        lambda company: to_page_response("<h1>Not found</h1>", status=404)
    ),
    SiteFault.GONE: _answer_page("<h1>Not found</h1>", status=404),
    SiteFault.FAILING: _but_robots(_answer_page("<h1>Internal Server Error</h1>", status=500)),
    SiteFault.UNAVAILABLE: _serve_unavailable,
    SiteFault.CHALLENGE: _serve_challenge,
    SiteFault.LOGIN: _but_robots(_serve_login),
    SiteFault.COOKIE_WALL: _but_robots(_serve_cookie_wall),
    SiteFault.SCRIPT_ONLY: _answer_page(
        _build_page(
            "App",
            '<div id="root"></div><noscript>You need to enable JavaScript to run this app.'
            '</noscript><script src="/static/app.js"></script>',
        )
    ),
    SiteFault.PARKED: _answer_page(
        _build_page(
            "Domain for sale",
            "<h1>This domain is for sale</h1><p>Buy this domain. Related searches: loans, hotels, "
            'insurance.</p><a href="http://parking.test/buy">Make an offer</a>',
        )
    ),
    SiteFault.SOFT_404: _serve_soft_404,
}
"""What each trouble does to an address; troubles not listed only spoil whole pages."""


def apply_page_fault(response: Response, trouble: SiteFault, request: Request) -> Response:
    """Return a good page as a trouble sends it."""
    if request.path == "/robots.txt":
        return response
    match trouble:
        case SiteFault.SLOW:
            return response.replace_fields(after=_SLOW_DELAY)
        case SiteFault.DRIPPING:
            return response.replace_fields(drip=_DRIP_DELAY)
        case SiteFault.CUT:
            return response.replace_fields(
                body=response.body[: len(response.body) // 2], lying_length=len(response.body)
            )
        case SiteFault.LYING_LENGTH:
            more = 1000 if len(request.path) % 2 else -len(response.body) // 2
            return response.replace_fields(lying_length=len(response.body) + more)
        case SiteFault.BROKEN_HTML:
            body = response.body
            for tag in (b"</p>", b"</li>", b"</ul>", b"</head>", b"</nav>", b"</title>"):
                body = body.replace(tag, b"" if tag != b"</title>" else b"</titel></title>")
            return response.replace_fields(
                body=b"<table><span><p " + body + b"<b><i></b><td><![CDATA[<x"
            )
        case _:
            return response
