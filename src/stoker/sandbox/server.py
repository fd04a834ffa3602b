"""The sandbox: one loopback port behind which a whole fake internet answers.

Maps host names to handlers and counts every request. It listens on loopback only and reads no wall
clock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import timedelta
from importlib import import_module

from stoker.sandbox.control import build_control_handler
from stoker.sandbox.faults import SITES, FaultSettingsTable, wrap_with_faults
from stoker.sandbox.http import (
    Handler,
    HttpConnection,
    Request,
    Response,
    open_server,
    to_text_response,
)
from stoker.sandbox.meter import LoggedRequest, Meter
from stoker.sandbox.sites.site import build_sites_handler
from stoker.sandbox.world.companies import World
from stoker.vendors.table import VENDORS

HandlerFactory = Callable[[World, FaultSettingsTable, Meter], Handler]

VENDOR_HANDLERS: Mapping[str, HandlerFactory] = {
    host: build
    for vendor in VENDORS.values()
    if vendor.sandbox
    for host, build in import_module(vendor.sandbox).HOSTS.items()
}

_OWN_DIALS = VENDOR_HANDLERS.keys() - {"news.test"}  # from the same house as the directory
FAULT_TARGETS = (
    SITES,
    *(host.removesuffix(".test").replace("-", "_") for host in sorted(_OWN_DIALS)),
)
"""Whose dials can be turned, by the name that stands before the point."""

CONTROL = "sandbox.test"
HANDLERS: Mapping[str, HandlerFactory] = {CONTROL: build_control_handler, **VENDOR_HANDLERS}
"""Who answers for which host; every other name is a company's own site, or unknown."""


class Sandbox:
    def __init__(
        self,
        *,
        seed: int = 1,
        companies: int = 1000,
        dials: Mapping[str, str | float | timedelta] | None = None,
        port: int = 0,
        vendors: Mapping[str, HandlerFactory] = HANDLERS,
        squatted: Collection[int] = (),
    ) -> None:
        self.world = World(seed=seed, size=companies, squatted=squatted)
        others = {host.removesuffix(".test") for host in vendors.keys() - HANDLERS.keys()}
        self.faults = FaultSettingsTable(dials, vendors=(*FAULT_TARGETS, *others))
        self.meter = Meter()
        self._port = port
        self._hosts = {
            host: maker(self.world, self.faults, self.meter) for host, maker in vendors.items()
        }
        self._site = self._build_site_handler()
        self._server: asyncio.Server | None = None
        self._connections: set[HttpConnection] = set()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    @property
    def log(self) -> list[LoggedRequest]:
        return self.meter.log

    @property
    def charges(self) -> dict[str, dict[str, int]]:
        return self.meter.charges

    async def __aenter__(self) -> Sandbox:
        self._server, self._connections = await open_server(self.answer, port=self._port)
        self._port = int(self._server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
            for line in list(self._connections):
                line.close()
            await self._server.wait_closed()
            self._server = None

    def answer(self, request: Request) -> Response:
        """Answer one request and count it. Never raises: a fault of ours is an answer too."""
        self.meter.requests += 1
        request = replace(request, number=self.meter.requests)
        handler = self._hosts.get(request.host)
        group = request.host if handler else SITES
        try:
            response = handler(request) if handler else self._site(request)
        except Exception as error:  # noqa: BLE001 - one bad request must not end the sandbox
            response = to_text_response(
                f"a fault of the sandbox: {type(error).__name__}\n", status=599
            )
        lost = response.hang or response.reset or response.close_after is not None
        self.meter.log_request(request, group=group, status=0 if lost else response.status)
        return response

    def _build_site_handler(self) -> Handler:
        world, of_company = self.world, build_sites_handler(self.world, self.faults)

        def answer_site(request: Request) -> Response:
            company = world.find_by_domain(request.host)
            if company is None:
                # No request reaches a name that does not resolve; this is the nearest thing.
                return Response(close_after=0)
            return of_company(request, company)

        return wrap_with_faults(
            SITES, answer_site, seed=world.seed, dials=self.faults, meter=self.meter
        )
