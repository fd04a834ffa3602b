"""Turns of what is not paid for: at a pace, one clock per host, and none while it is stopped."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from stoker.base.errors import PermanentError, TransientError
from stoker.base.types import TenantId
from stoker.budgets.model import Stop
from stoker.http.unpaid import UnpaidCalls
from stoker.rate_limits.host_delays import LocalHostPacer
from stoker.rate_limits.limiter import VendorLimit, VendorLimits
from stoker.rate_limits.rate_limit import Rate
from stoker.testing import FakeClock

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
ACME, BOLT = TenantId("acme"), TenantId("bolt")
SLOW = VendorLimit(rate=Rate(calls=1, per=SECOND), concurrency=10)
FAST = VendorLimit(rate=Rate(calls=1_000_000, per=SECOND), concurrency=10)
EVERYTHING, THE_CRM, A_BOARD = "", "odoo", "greenhouse"


def stop(connector, reason="the bill came"):
    return Stop(tenant=None, connector=connector, since=NOON, reason=reason)


class Gates:
    """Turns at a clock turned by hand, and what is stopped, by tenant."""

    def __init__(self, way=SLOW):
        self.clock, self.stop_reason = FakeClock(NOON), {}
        self.turns = UnpaidCalls(
            VendorLimits(lambda _: way, shared=None, owner="one", clock=self.clock),
            hosts=LocalHostPacer(clock=self.clock),
            clock=self.clock,
            stops=self._stops,
        )

    async def _stops(self, tenant):
        return self.stop_reason.get(tenant, [])

    @property
    def seconds(self):
        """How long it has taken so far, in whole ones."""
        return round((self.clock.now() - NOON) / SECOND)


def one_at_a_vendor(gates, **how):
    return gates.turns.for_vendor(THE_CRM, ACME, **how)


def one_at_a_host(gates, **how):
    turn = gates.turns.for_hosts(THE_CRM, ACME, **how)

    async def taken():
        async with turn("boards.test"):
            pass

    return taken


both = pytest.mark.parametrize("kind", [one_at_a_vendor, one_at_a_host])


@both
async def test_requests_go_at_their_pace(kind):
    gates = Gates()
    turn, went = kind(gates), []
    for _ in range(3):
        await turn()
        went.append(gates.seconds)
    assert went == [0, 1, 2]


@both
@pytest.mark.parametrize(
    ("stopped", "goes"),
    [
        ({}, True),
        ({ACME: [stop(THE_CRM)]}, False),
        ({ACME: [stop(EVERYTHING)]}, False),
        ({ACME: [stop(A_BOARD), stop(THE_CRM)]}, False),
        ({ACME: [stop(A_BOARD)]}, True),
        ({BOLT: [stop(EVERYTHING)]}, True),
    ],
)
async def test_nothing_goes_that_is_stopped_for_its_tenant_and_everything_else_does(
    kind, stopped, goes
):
    gates = Gates()
    gates.stop_reason = stopped
    turn = kind(gates)
    if goes:
        await turn()
    else:
        with pytest.raises(TransientError, match="odoo is stopped"):
            await turn()
    await kind(gates, despite_stops=True)()  # a person who looks or takes something back


@both
async def test_whoever_is_stopped_is_told_why_and_what_to_do(kind):
    async def told(reason):
        gates = Gates()
        gates.stop_reason = {ACME: [stop(THE_CRM, reason)]}
        with pytest.raises(TransientError) as refused:
            await kind(gates)()
        return str(refused.value)

    assert await told("the bill came") == (
        "odoo is stopped (the bill came); nothing more is sent until `stoker resume`"
    )
    assert "no reason was given" in await told("")


@both
async def test_what_is_stopped_while_somebody_waits_for_a_turn_does_not_go(kind):
    gates = Gates()
    turn = kind(gates)
    await turn()
    waiting = asyncio.create_task(turn())
    await asyncio.sleep(0)
    gates.stop_reason = {ACME: [stop(THE_CRM)]}
    with pytest.raises(TransientError, match="is stopped"):
        await waiting
    gates.stop_reason = {}
    await turn()


async def test_each_host_has_a_clock_of_its_own():
    gates = Gates(FAST)
    turn, went = gates.turns.for_hosts(A_BOARD, ACME, gap=5 * SECOND), []
    for host in ("a.test", "b.test", "a.test", "b.test"):
        async with turn(host):
            went.append(gates.seconds)
    assert went == [0, 0, 5, 5]


async def after_trouble(trouble):
    """Return when another host and then the same one are asked, once a host has failed so."""
    gates = Gates(FAST)
    turn, went = gates.turns.for_hosts(A_BOARD, ACME), []

    async def asked(host, error=None):
        async with turn(host):
            went.append(gates.seconds)
            if error is not None:
                raise error

    with pytest.raises(type(trouble)) as raised:
        await asked("a.test", trouble)
    assert raised.value is trouble
    await asked("b.test")
    await asked("a.test")
    return went[1:]


async def test_a_host_that_wants_to_rest_is_left_alone_and_the_others_are_not():
    assert await after_trouble(TransientError("busy", retry_after=30 * SECOND)) == [0, 30]


@pytest.mark.parametrize("trouble", [TransientError("busy"), PermanentError("not found")])
async def test_a_host_that_says_nothing_of_resting_is_asked_again(trouble):
    assert await after_trouble(trouble) == [0, 0]
