"""What handing touches over promises: when due, within the limits, once written down, one id."""

import hmac
import json
import os
from dataclasses import replace
from datetime import timedelta
from hashlib import sha256

import pytest

from kit.touch_desk import ACME, DAY, HOUR, MONDAY_AT_EIGHT, opened
from stoker.base.errors import ConfigError, PermanentError, TransientError
from stoker.crm.odoo import Odoo
from stoker.http.client import HttpClient
from stoker.sandbox.http import Response
from stoker.sandbox.server import Sandbox
from stoker.touches.delivery import (
    DELIVERY_HEADER,
    SIGNATURE_HEADER,
    CrmChannel,
    DeliveryResult,
    FileChannel,
    WebhookChannel,
    deliver_due,
)
from stoker.touches.settings import PlanRule

SECRET = "a secret that is long enough"
EVENING = MONDAY_AT_EIGHT + timedelta(hours=9, minutes=59)
PLENTY = PlanRule(hourly_cap=100)


class Desk:
    """A way that keeps what it was given; it fails as it is told to, by url."""

    name = "desk"

    def __init__(self):
        self.taken, self.tried, self.failing = {}, [], {}

    async def deliver(self, delivery, touch, *, now):
        self.tried.append(touch.url)
        if errors := self.failing.get(touch.url):
            raise errors.pop(0) if len(errors) > 1 else errors[0]
        self.taken[delivery] = touch


def over(at, way, **how):
    return deliver_due(at.touching, way, chance=lambda: 0.0, **how)


async def test_only_what_is_due_leaves_and_each_only_once():
    at, way = await opened(rule=PLENTY), Desk()
    queue = await at.touching.get_todays_queue()
    assert (await over(at, way)).delivered == ()
    at.clock.jump(queue[2].at)
    told = await over(at, way)
    assert told == DeliveryResult(delivered=tuple(queue[:3]), refused={}, postponed={}, waiting=0)
    assert (await over(at, way)).delivered == ()
    at.clock.jump(EVENING)
    assert (await over(at, way)).delivered == tuple(queue[3:])
    assert list(way.taken.values()) == queue


async def test_a_dry_run_hands_nothing_over():
    at, way = await opened(rule=PLENTY), Desk()
    queue = await at.touching.get_todays_queue()
    at.clock.jump(EVENING)
    assert (await over(at, way, dry=True)).delivered == tuple(queue)
    assert way.tried == []
    assert (await over(at, way)).delivered == tuple(queue)


async def test_no_more_leave_than_the_limits_have_room_for_also_counting_those_still_out():
    at, way = await opened(), Desk()
    queue = await at.touching.get_todays_queue()
    at.clock.jump(EVENING)
    told = await over(at, way)
    assert len(told.delivered) == 5
    assert told.waiting == len(queue) - 5
    assert told.waiting_reason == "the limit is 5 per hour: 0 done, 0 awaiting an outcome"
    assert (
        await over(at, way)
    ).waiting_reason == "the limit is 5 per hour: 0 done, 5 awaiting an outcome"
    await at.touching.mark_outcome(queue[0].url, "skipped")
    assert len((await over(at, way)).delivered) == 1
    await at.touching.mark_outcome(queue[1].url, "done")
    assert len((await over(at, way)).delivered) == 0


async def test_no_more_leave_than_were_asked_for():
    at, way = await opened(rule=PLENTY), Desk()
    queue = await at.touching.get_todays_queue()
    at.clock.jump(EVENING)
    told = await over(at, way, limit=2)
    assert (len(told.delivered), told.waiting) == (2, len(queue) - 2)
    assert (await over(at, way, limit=0)).delivered == ()


async def test_what_may_pass_is_tried_again_and_left_for_another_time():
    at, way = await opened(rule=PLENTY), Desk()
    queue = await at.touching.get_todays_queue()
    once, always = queue[0].url, queue[1].url
    busy = TransientError("busy")
    way.failing = {always: [busy]}
    at.clock.jump(queue[1].at)
    told = await over(at, way)
    assert told.postponed == {always: "busy"}
    assert way.tried == [once] + [always] * 3
    way.failing = {}
    assert [touch.url for touch in (await over(at, way)).delivered] == [always]


async def test_a_way_that_wants_to_be_left_alone_for_long_is():
    at, way = await opened(rule=PLENTY), Desk()
    queue = await at.touching.get_todays_queue()
    way.failing = {queue[0].url: [TransientError("later", retry_after=HOUR)]}
    at.clock.jump(queue[0].at)
    assert (await over(at, way)).postponed == {queue[0].url: "later"}
    assert len(way.tried) == 1
    assert at.clock.now() == queue[0].at


async def test_what_is_refused_for_good_is_told_and_not_tried_again():
    at, way = await opened(rule=PLENTY), Desk()
    queue = await at.touching.get_todays_queue()
    way.failing = {queue[0].url: [PermanentError("no such person")]}
    at.clock.jump(queue[0].at)
    assert (await over(at, way)).refused == {queue[0].url: "no such person"}
    assert await over(at, way) == DeliveryResult(delivered=(), refused={}, postponed={}, waiting=0)
    kept = await at.touching.ensure_plan()
    assert kept.deliveries[queue[0].day, queue[0].url].refused == "no such person"
    assert await at.touching.mark_outcome(queue[0].url, "skipped")


async def test_a_wrong_setting_stops_everything_and_loses_nothing_that_left():
    at, way = await opened(rule=PLENTY), Desk()
    queue = await at.touching.get_todays_queue()
    way.failing = {queue[1].url: [ConfigError("no secret is set")]}
    at.clock.jump(EVENING)
    with pytest.raises(ConfigError):
        await over(at, way)
    way.failing = {}
    assert (await over(at, way)).delivered == tuple(queue[1:])


class Dying:
    """A way after which the process dies, before anything is written down."""

    name = "desk"

    def __init__(self, way):
        self._read_limit = way

    async def deliver(self, delivery, touch, *, now):
        await self._read_limit.deliver(delivery, touch, now=now)
        raise KeyboardInterrupt


async def test_a_crash_after_delivering_delivers_again_under_the_same_id():
    at, way = await opened(rule=PLENTY), Desk()
    queue = await at.touching.get_todays_queue()
    at.clock.jump(queue[0].at)
    with pytest.raises(KeyboardInterrupt):
        await over(at, Dying(way))
    assert (await over(at, way)).delivered == (queue[0],)
    assert way.tried == [queue[0].url] * 2
    assert len(way.taken) == 1


async def sent_to_webhook(*answers, work, secret=SECRET):
    """Run work with a webhook that gives these answers in turn; return the requests."""
    requests = []

    def answer(request):
        requests.append(request)
        return answers[min(len(requests), len(answers)) - 1]

    async with Sandbox(vendors={"hooks.test": lambda *_: answer}) as box:
        http = HttpClient(user_agent="Stoker/test", sandbox=box.address)
        try:
            await work(
                WebhookChannel(http, tenant=ACME, url="http://hooks.test/touches", secret=secret)
            )
        finally:
            await http.close()
    return requests


def is_genuine(request, *, now, secret=SECRET):
    """Check a delivery as its receiver would, from the documentation alone."""
    parts = dict(part.split("=") for part in request.headers[SIGNATURE_HEADER].split(","))
    signed = f"{parts['t']}.{request.headers[DELIVERY_HEADER]}.".encode() + request.body
    ours = hmac.new(secret.encode(), signed, sha256).hexdigest()
    is_fresh = abs(int(parts["t"]) - now.timestamp()) <= 300
    return is_fresh and hmac.compare_digest(ours, parts["v1"])


async def test_a_webhook_gets_each_touch_signed_and_again_under_its_id():
    at = await opened(rule=PLENTY)
    queue = await at.touching.get_todays_queue()
    at.clock.jump(queue[1].at)
    results = []

    async def deliver(channel):
        results.append(await over(at, channel))

    requests = await sent_to_webhook(Response(status=503), Response(status=204), work=deliver)
    assert results[0].delivered == tuple(queue[:2])
    ids = [request.headers[DELIVERY_HEADER] for request in requests]
    assert ids[0] == ids[1] != ids[2]
    for request, touch in zip(requests[1:], queue[:2], strict=True):
        assert is_genuine(request, now=at.clock.now())
        assert SECRET not in repr(request)
        content = json.loads(request.body)
        assert (content["url"], content["tenant"], content["status"]) == (
            touch.url,
            ACME,
            "pending",
        )
        assert content["delivery"] == request.headers[DELIVERY_HEADER]
    late = at.clock.now() + timedelta(minutes=10)
    assert not is_genuine(requests[1], now=late)
    assert not is_genuine(requests[1], now=at.clock.now(), secret="another secret, also long")
    requests[1].headers[DELIVERY_HEADER] = ids[2]
    assert not is_genuine(requests[1], now=at.clock.now())


@pytest.mark.parametrize(
    ("answers", "kind"),
    [
        *[({"status": status}, TransientError) for status in (408, 425, 429, 500, 502, 503)],
        # Not known whether it arrived: sent again under its id.
        *[
            ({"body": b"yes", **wrong}, TransientError)
            for wrong in ({"reset": True}, {"close_after": 5}, {"lying_length": 9})
        ],
        *[({"status": status}, PermanentError) for status in (400, 405, 413, 422, 418)],
        *[({"status": status}, ConfigError) for status in (301, 307, 401, 403, 404, 410)],
    ],
)
async def test_a_webhooks_answer_decides_what_comes_next(answers, kind):
    at = await opened(rule=PLENTY)
    [touch, *_] = await at.touching.get_todays_queue()
    answer = Response(headers={"location": "http://elsewhere.test/"}, **answers)
    with pytest.raises(kind) as caught:
        await sent_to_webhook(answer, work=lambda way: way.deliver("d", touch, now=touch.at))
    assert SECRET not in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_a_secret_that_could_be_tried_out_is_refused():
    with pytest.raises(ConfigError):
        await sent_to_webhook(Response(), work=None, secret="short")


async def test_a_file_gets_each_touch_as_a_line_and_a_torn_line_swallows_none(tmp_path):
    at, path = await opened(rule=PLENTY), tmp_path / "out" / "touches.jsonl"
    queue = await at.touching.get_todays_queue()
    way = FileChannel(path, tenant=ACME)
    at.clock.jump(queue[0].at)
    await over(at, way)
    path.write_bytes(path.read_bytes() + b'{"url": "torn')
    at.clock.jump(queue[1].at)
    await over(at, way)
    first, torn, second = path.read_text().splitlines()
    assert torn == '{"url": "torn'
    assert [json.loads(line)["url"] for line in (first, second)] == [t.url for t in queue[:2]]
    with pytest.raises(ConfigError):
        await FileChannel(tmp_path, tenant=ACME).deliver("d", queue[0], now=at.clock.now())


async def test_a_pipe_gets_each_touch_and_a_new_file_is_its_owners_alone(tmp_path):
    at, pipe, file = await opened(rule=PLENTY), tmp_path / "pipe", tmp_path / "file"
    os.mkfifo(pipe)
    [touch, *_] = await at.touching.get_todays_queue()
    with os.fdopen(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK), "rb") as reader:
        await FileChannel(pipe, tenant=ACME).deliver("d", touch, now=touch.at)
        assert json.loads(reader.readline())["delivery"] == "d"
    await FileChannel(file, tenant=ACME).deliver("d", touch, now=touch.at)
    assert file.stat().st_mode & 0o077 == 0


async def test_a_file_gets_what_stands_in_its_last_lines_no_second_time(tmp_path):
    at, path = await opened(rule=PLENTY), tmp_path / "touches.jsonl"
    first, second, *_ = await at.touching.get_todays_queue()
    posing = replace(first, name='x", "delivery": "d2', url='https://people.test/"delivery":"d2"')
    for delivery, touch in (("d1", first), ("d1", first), ("d3", posing), ("d2", second)):
        await FileChannel(path, tenant=ACME).deliver(delivery, touch, now=touch.at)
    torn = b'{"kind": "touch", "delivery": "d4"'
    path.write_bytes(path.read_bytes() + b'[]\n{"delivery": 7}\n' + torn)
    for _ in range(2):
        await FileChannel(path, tenant=ACME).deliver("d4", second, now=second.at)
    said = path.read_bytes().splitlines()
    whole = [json.loads(line) for line in said if line != torn]
    found = [each["delivery"] for each in whole if isinstance(each, dict)]
    assert found == ["d1", "d3", "d2", 7, "d4"]


async def test_odoo_gets_each_touch_as_one_activity_on_one_partner_however_often():
    at = await opened(rule=PLENTY)
    queue = await at.touching.get_todays_queue()
    queue[0] = replace(queue[0], person="Ann Lee", channel="phone")
    evil = replace(queue[0], name="<b>Ann</b>\0", url="https://people.test/<x>")
    async with Sandbox(companies=1) as box:
        http = HttpClient(user_agent="Stoker/test", sandbox=box.address)
        crm = Odoo(http, url="http://odoo.test", database="acme", key="odoo-acme-s3cret")
        way = CrmChannel(crm, tenant=ACME, user="base.user_sales")
        try:
            for touch in (queue[0], queue[0], replace(queue[0], day=queue[0].day + DAY), evil):
                await way.deliver(f"touch-{touch.day}-{len(touch.name)}", touch, now=touch.at)
            fields = ["res_id", "date_deadline", "note", "summary"]
            made = await crm.search("mail.activity", [], fields=fields)
            partners = await crm.search(
                "res.partner", [["website", "=", queue[0].url]], fields=["name"]
            )
            with pytest.raises(PermanentError, match="user_id"):
                await CrmChannel(crm, tenant=ACME, user="base.nobody").deliver(
                    "touch-x", queue[0], now=queue[0].at
                )
        finally:
            await http.close()
    touch = queue[0]
    [partner] = partners
    assert partner.values["name"] == touch.name
    assert made[0].values["summary"] == f"Touch Ann Lee, {touch.name} by phone"
    assert [each.values["date_deadline"] for each in made] == [
        "2026-02-09",
        "2026-02-10",
        "2026-02-09",
    ]
    assert [each.values["res_id"] for each in made[:2]] == [partner.id] * 2
    assert touch.url in made[0].values["note"]
    assert "<x>" not in made[2].values["note"]
