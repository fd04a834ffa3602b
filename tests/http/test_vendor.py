import json
import random
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from urllib.parse import quote

import pytest

from faults.hostile_server import HostileServer
from kit.counted_work import counted_calls
from stoker.base.errors import ConfigError, PermanentError, TransientError, UncertainError
from stoker.base.retry import MAX_WAIT
from stoker.http.api_client import MAX_ANSWER_VALUES, StatusMeaning, VendorApi
from stoker.http.client import HttpClient, Response

CANARY = "canary-81aa"
NOW = datetime(2026, 11, 16, 2, tzinfo=UTC)


async def asked(work, *, base_url="http://vendor.test", **settings):
    async with HostileServer() as server:
        http = HttpClient(user_agent="Stoker test", sandbox=server.address)
        try:
            vendor = VendorApi(
                http,
                name="acme",
                base_url=base_url,
                headers={"Authorization": f"Bearer {CANARY}"},
                deadline=timedelta(seconds=1),
                **settings,
            )
            return await work(vendor)
        finally:
            await http.close()


def saying(status=200, body=b"{}", header=""):
    extra = f"&header={quote(header)}" if header else ""
    return f"/say?status={status}&body={body.hex()}{extra}"


async def test_a_question_goes_out_as_json_with_our_key():
    answered = await asked(lambda vendor: vendor.post("/echo", {"q": "é\ud800", "n": [1, None]}))
    told = answered.data
    assert json.loads(told["body"]) == {"q": "é\ud800", "n": [1, None]}
    assert told["headers"]["authorization"] == f"Bearer {CANARY}"
    assert told["headers"]["content-type"] == "application/json"
    assert (told["method"], answered.status) == ("POST", 200)


async def test_parameters_and_headers_of_one_call_go_along():
    work = lambda vendor: vendor.get("/echo", {"q": "a b&c"}, headers={"X-Once": "1"})  # noqa: E731
    told = (await asked(work, base_url="http://vendor.test/echo/")).data
    assert told["target"] == "/echo/echo?q=a+b%26c"
    assert told["headers"]["x-once"] == "1"


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (301, ConfigError),
        (400, PermanentError),
        (401, ConfigError),
        (402, ConfigError),
        (403, ConfigError),
        (404, PermanentError),
        (408, TransientError),
        (409, PermanentError),
        (418, PermanentError),
        (422, PermanentError),
        (425, TransientError),
        (429, TransientError),
        (500, UncertainError),
        (502, UncertainError),
        (503, TransientError),
        (504, UncertainError),
        (599, UncertainError),
    ],
)
async def test_a_status_becomes_what_the_caller_does_next(status, kind):
    with pytest.raises(kind) as raised:
        await asked(lambda vendor: vendor.post(saying(status, CANARY.encode()), {}))
    assert type(raised.value) is kind
    assert str(status) in str(raised.value)
    assert str(raised.value).startswith("acme ")
    assert CANARY not in str(raised.value)


async def test_a_vendors_own_meaning_stands_before_the_usual():
    own = {
        403: StatusMeaning(PermanentError, "will not show this person"),
        500: StatusMeaning(TransientError, "naps"),
    }
    for status, kind in ((403, PermanentError), (500, TransientError), (401, ConfigError)):
        with pytest.raises(kind):
            await asked(lambda vendor, status=status: vendor.get(saying(status)), failures=own)


async def test_a_vendor_whose_meaning_is_in_the_body_is_judged_by_it():
    def judge(answered):
        if answered.data == {"code": "insufficient_quota"}:
            return ConfigError("acme has no quota left")
        return None

    out_of_quota = saying(429, b'{"code": "insufficient_quota"}')
    with pytest.raises(ConfigError):
        await asked(lambda vendor: vendor.post(out_of_quota, {}), judge=judge)
    for body in (b"{}", b"<html>", b""):
        with pytest.raises(TransientError):
            await asked(lambda vendor, body=body: vendor.post(saying(429, body), {}), judge=judge)


@pytest.mark.parametrize(
    "path",
    [
        saying(200, b"<html>"),
        saying(200, b"{"),
        saying(200, b'{"a": NaN}'),
        "/close",
        "/reset",
        "/hang",
        "/hang-in-body",
        "/bomb/br",
        "/too-long",
        "/raw?bytes=00",
    ],
)
async def test_an_answer_that_was_lost_or_cannot_be_read_is_uncertain(path):
    with pytest.raises(UncertainError):
        await asked(lambda vendor: vendor.post(path, {}))
    with pytest.raises(UncertainError):
        await asked(lambda vendor: vendor.get(path))


async def test_an_answer_beyond_all_measure_is_uncertain():
    with pytest.raises(UncertainError):
        # What is left of it would be an answer too.
        await asked(lambda vendor: vendor.get(saying(200, b"123")), most_bytes=2)


def answer(values):
    body = b"[0" + b",0" * (values - 1) + b"]"
    return Response(status=200, headers={}, body=body, url="", truncated=False, wire_bytes=0)


async def test_a_large_answer_is_read_in_a_process_of_its_own():
    async def work(vendor):
        with counted_calls() as calls:
            small = await vendor.read(answer(20_000))
            large = await vendor.read(answer(30_000))
        return len(small.data), len(large.data), calls["parse_json"]

    assert await asked(work) == (20_000, 30_000, 1)


async def test_an_answer_of_more_values_than_memory_is_for_is_uncertain():
    with pytest.raises(UncertainError, match="more than 100000 values"):
        await asked(lambda vendor: vendor.read(answer(MAX_ANSWER_VALUES + 2)))


async def test_an_empty_answer_is_nothing_to_read():
    assert (await asked(lambda vendor: vendor.get(saying(204, b"")))).data is None


async def test_a_question_that_is_not_json_is_never_sent():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    for question in (float("nan"), {"a": object()}, deep):
        with pytest.raises(PermanentError):
            await asked(lambda vendor, question=question: vendor.post("/echo", question))


@pytest.mark.parametrize(
    "base_url",
    [
        "http://api.example.com",
        "https://127.0.0.1",
        "https://user:x@api.example.com",
        "api",
        "https://a.com:8069",
        "",
    ],
)
async def test_a_base_address_is_https_and_public(base_url):
    with pytest.raises(ConfigError):
        await asked(lambda vendor: vendor.get("/ok"), base_url=base_url)


async def test_a_host_that_does_not_exist_is_for_a_person_to_mend():
    with pytest.raises((ConfigError, TransientError)):
        await asked(lambda vendor: vendor.get("/ok"), base_url="https://nowhere.invalid")


async def test_a_vendor_does_not_show_its_key():
    async def work(vendor):
        return f"{vendor} {vendor!r}"

    assert CANARY not in await asked(work)


def odd_waits(rng, count):
    """What servers and their imitators write after Retry-After, and what may be waited at most."""
    fixed = [
        "",
        "nan",
        "-1",
        "0",
        "1e9",
        "1000000000",
        "soon",
        "1;2",
        "+5",
        "0x10",
        "1 s",
        "∞",
        "1,5",
    ]
    for number in range(count):
        if number < len(fixed):
            yield fixed[number]
        elif number % 3 == 0:
            yield str(rng.choice([1, 2, 30, 59, 3600, 86_400, 10**12]) * rng.choice([1, -1]))
        elif number % 3 == 1:
            away = timedelta(seconds=rng.randint(-(10**6), 10**7))
            yield format_datetime(NOW + away, usegmt=True)
        else:
            yield "".join(rng.choice("0123456789 :,.-GMTNov") for _ in range(rng.randint(1, 30)))


async def test_a_hundred_ways_of_asking_us_to_wait_are_all_bounded(record_property):
    rng = random.Random("waits")
    date = format_datetime(NOW, usegmt=True)

    async def work(vendor):
        waits = []
        for text in odd_waits(rng, 100):
            text = text.encode("latin-1", "ignore").decode("latin-1").strip()
            header = f"Retry-After: {text}\r\nDate: {date}"
            status = rng.choice([429, 503])
            with pytest.raises(TransientError) as raised:
                await vendor.post(saying(status, b"", header), {})
            waits.append(raised.value.retry_after)
        return waits

    waits = await asked(work)
    assert all(wait is None or timedelta(0) < wait <= MAX_WAIT for wait in waits)
    assert len(waits) == 100
    assert sum(wait is not None for wait in waits) > 30
    record_property("fault", f"Retry-After, odd values: n={len(waits)}, unbounded waits 0")
