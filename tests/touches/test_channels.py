"""What a delivery to a webhook promises: signed over its bytes, sent again only under its id."""

import hmac
import json
from datetime import UTC, datetime, timedelta
from hashlib import sha256

import pytest

from stoker.base.errors import ConfigError, PermanentError, TransientError
from stoker.http.client import HttpClient
from stoker.sandbox.http import Response
from stoker.sandbox.server import Sandbox
from stoker.touches.channels import DELIVERY_HEADER, SIGNATURE_HEADER, Webhook

SECRET = "a secret that is long enough"
NOW = datetime(2026, 2, 9, 1, 30, tzinfo=UTC)
CONTENT = {"name": "Ünï 🙂", "forced": True}


def good(asked, secret=SECRET, now=NOW):
    """Check a delivery as its receiver would, from the documentation alone."""
    said = dict(part.split("=") for part in asked.headers[SIGNATURE_HEADER].split(","))
    signed = f"{said['t']}.{asked.headers[DELIVERY_HEADER]}.".encode() + asked.body
    ours = hmac.new(secret.encode(), signed, sha256).hexdigest()
    fresh = abs(int(said["t"]) - now.timestamp()) <= 300
    return fresh and hmac.compare_digest(ours, said["v1"])


async def delivered(*told, times=1, secret=SECRET, content=CONTENT, delivery="week-1"):
    """Deliver to a webhook that answers with these, one after the other; return what came."""
    came = []

    def take(asked):
        came.append(asked)
        return told[min(len(came), len(told)) - 1]

    async with Sandbox(vendors={"hooks.test": lambda *_: take}) as box:
        http = HttpClient(user_agent="Stoker/test", sandbox=box.address)
        hook = Webhook(
            http,
            url="http://hooks.test/in",
            secret=secret,
            deadline=timedelta(seconds=5),
        )
        try:
            for _ in range(times):
                await hook.deliver(delivery, content, now=NOW)
        finally:
            await http.close()
    return came


async def failing(told, **how):
    with pytest.raises((ConfigError, PermanentError, TransientError)) as caught:
        await delivered(told, **how)
    said = str(caught.value)
    assert SECRET not in said
    assert "\n" not in said
    return type(caught.value)


async def test_the_receiver_can_tell_who_sent_a_delivery_and_when():
    [asked] = await delivered(Response(status=204))
    assert good(asked)
    assert json.loads(asked.body) == CONTENT
    assert asked.path == "/in"


async def test_a_delivery_changed_on_its_way_an_old_one_or_one_by_another_is_told_apart():
    [asked] = await delivered(Response())
    [other] = await delivered(Response(), secret="another secret, also long")
    assert not good(other)
    assert not good(asked, now=NOW + timedelta(minutes=10))
    asked.headers[DELIVERY_HEADER] = "week-2"
    assert not good(asked)


async def test_the_secret_itself_never_travels():
    [asked] = await delivered(Response())
    assert SECRET not in repr(asked)


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503])
async def test_what_may_pass_is_sent_again_later(status):
    assert await failing(Response(status=status)) is TransientError


@pytest.mark.parametrize("wrong", [{"reset": True}, {"close_after": 5}, {"lying_length": 9}])
async def test_not_knowing_whether_it_arrived_is_sending_it_again_under_its_id(wrong):
    assert await failing(Response(body=b"yes", **wrong)) is TransientError


@pytest.mark.parametrize("status", [400, 405, 413, 422, 418])
async def test_what_is_refused_for_good_is_not_sent_again(status):
    assert await failing(Response(status=status)) is PermanentError


@pytest.mark.parametrize("status", [301, 307, 401, 403, 404, 410])
async def test_a_webhook_that_is_not_there_or_wants_another_secret_is_for_people_to_put_right(
    status,
):
    headers = {"location": "http://elsewhere.test/"}
    assert await failing(Response(status=status, headers=headers)) is ConfigError


async def test_a_secret_that_could_be_tried_out_is_refused():
    assert await failing(Response(), secret="short") is ConfigError


async def test_what_cannot_be_sent_is_refused_before_anything_is():
    assert await failing(Response(), delivery="two words") is PermanentError
    assert await failing(Response(), content={"score": float("nan")}) is PermanentError
