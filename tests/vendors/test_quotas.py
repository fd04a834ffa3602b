"""What vendors say is left, through everything real: the pace slows for it, and never quickens."""

from datetime import timedelta

import pytest

from stoker.testing import FakeClock
from stoker.vendors.lusha import PeopleQuery
from stoker.vendors.model import VendorAnswer
from vendor_desk import Saying, at_desk

SECOND = timedelta(seconds=1)


async def waits(calls, dials=None, **how):
    """Ask one thing after the other, and return how long each waited, by the desk's own clock."""

    async def work(here):
        waited = []
        for number in range(calls):
            before = here.clock.now()
            question = PeopleQuery(domain=f"somebody{number}.test", most=5)
            told = await here.get_vendor_client.ask(
                here.people, question, account=str(number), run="r1"
            )
            assert isinstance(told, VendorAnswer)
            waited.append(here.clock.now() - before)
        return waited

    return await at_desk(work, dials, clock=FakeClock(), **how)


async def test_a_minute_that_is_nearly_used_up_slows_the_pace_before_anybody_is_refused():
    waited = await waits(8, {"lusha.calls": 8, "lusha.window": "60s"})

    assert max(waited[:7]) < SECOND  # there was enough left
    assert 29 * SECOND < waited[7] < 31 * SECOND  # one call left of a minute: half of it


async def test_a_vendor_with_plenty_left_slows_nobody():
    assert max(await waits(12)) < SECOND


def left(**headers):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Saying({"results": [], "billing": {"creditsCharged": 1}}, headers=named)


@pytest.mark.parametrize(
    ("says", "wait"),
    [
        (left(x_minute_requests_left="0"), timedelta(minutes=1)),
        (left(x_minute_requests_left="2"), timedelta(seconds=20)),
        (left(x_minute_requests_left="2", x_rate_limit_minute="8"), timedelta(0)),
        (left(x_hourly_requests_left="0"), timedelta(hours=1)),
        (left(x_daily_requests_left="1"), timedelta(0)),
        (left(x_minute_requests_left="-1"), timedelta(0)),
        (left(x_minute_requests_left="nan", x_daily_requests_left="1e9"), timedelta(0)),
    ],
)
async def test_what_is_left_has_to_last_and_nonsense_says_nothing(says, wait):
    _, second = await waits(2, says=says)
    assert abs(second - wait) < SECOND
