"""The sandbox: one loopback port behind which a whole make-believe internet answers.

Knows who answers for which host name, and that every request is counted. What anybody answers is
their own module's business. Nothing here listens beyond loopback or looks at a wall clock.

Which vendors there are in the make-believe internet, by host name.

A list only; how each one answers is its own module's business.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta

from stoker.sandbox.control import control
from stoker.sandbox.faults import SITES, Dials, dialled
from stoker.sandbox.http import Asked, Handler, Line, Told, listen, port_of, text_told
from stoker.sandbox.meter import Seen, Tallies
from stoker.sandbox.sites.site import sites
from stoker.sandbox.vendors.boards import ashby, feeds, greenhouse, lever
from stoker.sandbox.vendors.data_gov import data_gov
from stoker.sandbox.vendors.lusha import lusha
from stoker.sandbox.vendors.odoo.server import odoo
from stoker.sandbox.vendors.openai import openai
from stoker.sandbox.vendors.tavily import directory, tavily
from stoker.sandbox.vendors.zerobounce import zerobounce
from stoker.sandbox.world.companies import World

MAKERS: Mapping[str, Callable[[World, Dials, Tallies], Handler]] = {
    "tavily.test": tavily,
    "lusha.test": lusha,
    "zerobounce.test": zerobounce,
    "openai.test": openai,
    "odoo.test": odoo,
    "greenhouse.test": greenhouse,
    "lever.test": lever,
    "ashby.test": ashby,
    "feeds.test": feeds,
    "data-gov.test": data_gov,
    "directory.test": directory,
    "news.test": directory,
}

DIALLED = (
    SITES,
    "ashby",
    "data_gov",
    "directory",  # and the news, which come from the same house
    "feeds",
    "greenhouse",
    "lever",
    "lusha",
    "odoo",
    "openai",
    "tavily",
    "zerobounce",
)
"""Whose dials can be turned, by the name that stands before the point."""

Maker = Callable[[World, Dials, Tallies], Handler]
"""Makes the handler of one host."""

CONTROL = "sandbox.test"

VENDORS: Mapping[str, Maker] = {CONTROL: control, **MAKERS}
"""Who answers for which host; every other name is a company's own site, or nobody's."""


class Sandbox:
    """A make-believe internet, as an async context manager."""

    def __init__(
        self,
        *,
        seed: int = 1,
        companies: int = 1000,
        dials: Mapping[str, str | float | timedelta] | None = None,
        port: int = 0,
        vendors: Mapping[str, Maker] = VENDORS,
    ) -> None:
        self.world = World(seed=seed, size=companies)
        others = {host.removesuffix(".test") for host in vendors.keys() - VENDORS.keys()}
        self.dials = Dials(dials, vendors=(*DIALLED, *others))
        self.tallies = Tallies()
        self._port = port
        self._hosts = {
            host: maker(self.world, self.dials, self.tallies) for host, maker in vendors.items()
        }
        self._site = self._dialled_sites()
        self._server: asyncio.Server | None = None
        self._lines: set[Line] = set()

    @property
    def address(self) -> str:
        """Where it listens, as `127.0.0.1:port`."""
        return f"127.0.0.1:{self._port}"

    @property
    def log(self) -> list[Seen]:
        """The last requests, oldest first."""
        return self.tallies.log

    @property
    def charges(self) -> dict[str, dict[str, int]]:
        """What every vendor charged, by vendor and unit."""
        return self.tallies.charges

    async def __aenter__(self) -> Sandbox:
        self._server, self._lines = await listen(self.answer, port=self._port)
        self._port = port_of(self._server)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
            for line in list(self._lines):
                line.close()
            await self._server.wait_closed()
            self._server = None

    def answer(self, asked: Asked) -> Told:
        """Answer one request and count it. Never raises: a fault of ours is an answer too."""
        self.tallies.requests += 1
        asked = replace(asked, number=self.tallies.requests)
        handler = self._hosts.get(asked.host)
        group = asked.host if handler else SITES
        try:
            told = handler(asked) if handler else self._site(asked)
        except Exception as error:  # noqa: BLE001 - one bad request must not end the sandbox
            told = text_told(f"a fault of the sandbox: {type(error).__name__}\n", status=599)
        lost = told.hang or told.reset or told.close_after is not None
        self.tallies.note(asked, group=group, status=0 if lost else told.status)
        return told

    def _dialled_sites(self) -> Handler:
        world, of_company = self.world, sites(self.world, self.dials)

        def answered(asked: Asked) -> Told:
            company = world.by_domain(asked.host)
            if company is None:
                # A name that resolves nowhere cannot be asked; this is the nearest thing.
                return Told(close_after=0)
            return of_company(asked, company)

        return dialled(SITES, answered, seed=world.seed, dials=self.dials, tallies=self.tallies)
