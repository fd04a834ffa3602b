"""The vendor's own counter against our books, whichever process dies, however the vendor lies."""

from datetime import timedelta

import pytest

from faults.payers import CONNECTOR, RUN, cap_of
from faults.paying_trials import killed_while_paying
from metered_vendor import UNIT, MeteredVendor, Mood, buy
from stoker.backends.sqlite import MemoryBackend
from stoker.base.clock import SystemClock
from stoker.base.errors import PermanentError, TransientError, UncertainError
from stoker.base.types import TenantId
from stoker.budgets.charges import SpendRequest
from stoker.budgets.reservations import ReservationStatus
from stoker.budgets.service import BudgetService
from stoker.budgets.windows import ResetRule

pytestmark = pytest.mark.faults

CALLS = 600  # with a vendor that knows keys, and as many with one that does not


@pytest.mark.parametrize("knows_keys", [True, False], ids=["knows keys", "knows no keys"])
def test_whoever_is_killed_and_however_it_lies_the_vendor_takes_no_more_than_we_know_of(
    knows_keys, tmp_path, rng, request
):
    verdict = killed_while_paying(
        tmp_path / "trial", calls=CALLS, knows_keys=knows_keys, chance=rng
    )

    which = "knows keys" if knows_keys else "knows no keys"
    request.node.user_properties.append(("fault", f"C2 a lying vendor that {which}: {verdict}"))
    assert verdict.broken == []
    assert verdict.kills
    assert verdict.calls


@pytest.mark.parametrize("way", ["records afterwards", "gives back when unsure"])
def test_the_naive_twin_is_caught(way, tmp_path, rng):
    verdict = killed_while_paying(
        tmp_path / "trial", calls=300, knows_keys=False, way=way, chance=rng
    )

    assert verdict.broken


class Shop:
    """One gate in this process, and a vendor."""

    def __init__(self, vendor, *, cap=100):
        self.vendor = vendor
        self.money = MemoryBackend().tenant(TenantId("acme")).budgets
        clock = SystemClock()
        self.get_gate = BudgetService(
            self.money,
            caps=[cap_of(cap)],
            reset=ResetRule(),
            owner="one",
            clock=clock,
            lease=timedelta(minutes=1),
        )

    async def pay(self, key):
        request = SpendRequest(
            key=key, connector=CONNECTOR, amounts={UNIT: self.vendor.till.price}, run=RUN
        )
        return await self.get_gate.spend(
            request, lambda: buy(self.vendor.port, key=key, patience=0.2)
        )

    async def in_ledger(self):
        return sum(usage.used.total for usage in await self.money.list_usage())


@pytest.mark.parametrize(
    ("mood", "error", "phase", "charged"),
    [
        (Mood.BUSY, TransientError, ReservationStatus.RELEASED, 0),
        (Mood.NO, PermanentError, ReservationStatus.RELEASED, 0),
        (Mood.FAILS_BEFORE, UncertainError, ReservationStatus.UNCERTAIN, 0),
        (Mood.FAILS_AFTER, UncertainError, ReservationStatus.UNCERTAIN, 7),
        (Mood.HANGS_AFTER, UncertainError, ReservationStatus.UNCERTAIN, 7),
        (Mood.CLOSES_AFTER, UncertainError, ReservationStatus.UNCERTAIN, 7),
        (Mood.HALF_AN_ANSWER, UncertainError, ReservationStatus.UNCERTAIN, 7),
    ],
)
async def test_each_way_of_failing_leaves_the_books_covering_what_was_charged(
    mood, error, phase, charged
):
    with MeteredVendor(price=7, knows_keys=False, moods={mood: 1}) as vendor:
        shop = Shop(vendor)
        with pytest.raises(error):
            await shop.pay("pull-1")
        assert ((await shop.money.find_reservation("pull-1")).status, vendor.till.charged) == (
            phase,
            charged,
        )


async def test_a_vendor_that_cannot_be_reached_has_charged_nothing():
    with MeteredVendor(price=7, knows_keys=False) as vendor:
        shop = Shop(vendor)

    with pytest.raises(TransientError):
        await shop.pay("pull-1")
    assert await shop.in_ledger() == 0
