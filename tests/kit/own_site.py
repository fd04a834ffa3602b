"""One site of our own on the make-believe internet, and a crawler whose waits pass at once."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

from stoker.base.process_pool import ProcessPool
from stoker.crawl.service import Crawler
from stoker.crawl.visit import CrawlLimits
from stoker.http.client import HttpClient
from stoker.rate_limits.host_delays import LocalHostPacer
from stoker.sandbox.http import Request, Response, to_page_response, to_text_response
from stoker.sandbox.server import Sandbox
from stoker.testing import FakeClock

AGENT = "Stoker/0.1 (+https://stoker.test)"
HOST = "acme.test"
PROSE = (
    "We make anvils and hammers for smiths all over the region, and have done so for years. " * 4
)
Pages = Mapping[str, Response | str | Callable[[Request], Response]]


@dataclass
class OwnSite:
    """The site, who visits it, and the time that passes for them."""

    box: Sandbox
    crawler: Crawler
    clock: FakeClock

    @property
    def asked(self) -> list[str]:
        """Return what was asked for, in order."""
        return [seen.target for seen in self.box.log]

    async def visit(self, url: str = HOST, **more: object):
        return await self.crawler.visit(url, **more)


@asynccontextmanager
async def site(
    served: Pages,
    /,
    *,
    hosts: Mapping[str, Pages] | None = None,
    pool: ProcessPool | None = None,
    **limits: object,
) -> AsyncIterator[OwnSite]:
    """Serve these pages under `acme.test`; whatever is not there is not found."""
    async with Sandbox(vendors=makers({HOST: served, **(hosts or {})})) as box:
        http = HttpClient(user_agent=AGENT, sandbox=box.address)
        clock = FakeClock()
        limited = CrawlLimits(**{"request": timedelta(seconds=5), **limits})
        crawler = Crawler(
            http,
            pacer=LocalHostPacer(clock=clock),
            clock=clock,
            user_agent=AGENT,
            limits=limited,
            pool=pool,
        )
        try:
            yield OwnSite(box, crawler, clock)
        finally:
            await http.close()


def makers(hosts: Mapping[str, Pages]) -> dict[str, Callable[..., Callable[[Request], Response]]]:
    """Return what a sandbox needs to serve these hosts' pages."""
    return {host: lambda *_, of=of: lambda asked: _told(of, asked) for host, of in hosts.items()}


def _told(pages: Pages, asked: Request) -> Response:
    target = asked.path + (f"?{asked.search}" if asked.search else "")
    found = pages.get(target, pages.get(asked.path))
    if found is None:
        return to_text_response("Not found\n", status=404)
    if callable(found):
        return found(asked)
    return to_page_response(page(found)) if isinstance(found, str) else found


def page(body: str, *, title: str = "Acme") -> str:
    """Return a page around these words."""
    return f"<!doctype html><title>{title}</title><body>{body}<p>{PROSE}</p></body>"


def with_etag(body: str, etag: str) -> Callable[[Request], Response]:
    """Return a page that knows who has seen it."""

    def told(asked: Request) -> Response:
        if asked.headers.get("if-none-match") == etag:
            return Response(status=304, headers={"etag": etag})
        whole = to_page_response(page(body))
        return whole.replace_fields(headers={**whole.headers, "etag": etag})

    return told
