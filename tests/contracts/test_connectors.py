"""What every connector promises, whatever its vendor does: one suite, all of them."""

import asyncio
import json
import logging
import traceback
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.connectors import CONNECTORS
from stoker.base.errors import (
    ConfigError,
    PermanentError,
    StokerError,
    TransientError,
    UncertainError,
)
from stoker.budgets.caps import validate_amount, validate_connector, validate_unit
from stoker.budgets.model import Paid
from stoker.http.client import HttpClient
from stoker.sandbox.faults import Fault
from stoker.sandbox.http import Response
from stoker.sandbox.server import Sandbox

CANARY = "canary-90be12"
KEY = f"tvly-{CANARY}"
NOTHING_DONE = {Fault.BUSY, Fault.UNAVAILABLE}


@pytest.fixture(params=CONNECTORS)
def subject(request):
    return CONNECTORS[request.param]


class Bench:
    """A connector beside the sandbox it asks."""

    def __init__(self, subject, box, http, key):
        self.subject, self.box = subject, box
        self.connector = subject.make(http, key)
        self.questions = subject.questions(box.world)

    @property
    def charged(self):
        return self.box.charges.get(self.subject.vendor, {}).get(self.subject.unit, 0)

    def turn(self, dial, value):
        self.box.faults.set_value(f"{self.subject.vendor}.{dial}", value)

    async def ask(self, question=None):
        """Ask once; what went wrong comes back as it was raised."""
        try:
            return await self.connector.ask(question or self.questions[0], key="a-key")
        except StokerError as error:
            return error


@asynccontextmanager
async def bench_of(subject, *, key=KEY, vendors=None):
    async with AsyncExitStack() as stack:
        dials = {"zerobounce.calls": 1_000_000}
        more = {"vendors": vendors} if vendors else {}
        box = await stack.enter_async_context(Sandbox(companies=150, dials=dials, **more))
        http = HttpClient(user_agent="Stoker test", sandbox=box.address)
        stack.push_async_callback(http.close)
        yield Bench(subject, box, http, key)


async def on_bench(subject, work, **how):
    async with bench_of(subject, **how) as bench:
        return await work(bench)


def assert_no_leak(*things):
    for thing in things:
        said = [str(thing), repr(thing)]
        if isinstance(thing, BaseException):
            said += traceback.format_exception(thing)
        assert not any(CANARY in text for text in said)


async def test_its_name_is_one_that_caps_and_rates_go_by(subject):
    async def work(bench):
        return bench.connector.name

    assert validate_connector(await on_bench(subject, work))


async def test_a_price_is_known_before_and_is_something_within_reason(subject):
    async def work(bench):
        return [bench.connector.price(question) for question in bench.questions]

    for price in await on_bench(subject, work):
        assert price
        for name, number in price.items():
            assert validate_unit(name)
            assert 1 <= validate_amount(number) <= subject.most


async def test_a_cost_is_never_above_the_price_nor_below_what_was_charged(subject):
    async def work(bench):
        seen = []
        for question in bench.questions:
            before = bench.charged
            done = await bench.connector.ask(question, key="a-key")
            seen.append((bench.connector.price(question), done.cost, bench.charged - before))
        return seen

    for price, cost, charged in await on_bench(subject, work):
        assert cost.keys() == price.keys()
        assert all(cost[name] <= price[name] for name in price)
        assert cost.get(subject.unit, 0) >= charged


async def test_a_vendor_that_charges_more_than_its_price_is_counted_as_it_was(subject):
    async def work(bench):
        bench.turn("price_percent", 700)
        done = await bench.connector.ask(bench.questions[0], key="a-key")
        return done.cost, bench.charged

    cost, charged = await on_bench(subject, work)
    if subject.tells_charges and subject.raises:
        assert cost[subject.unit] == charged


async def test_every_status_becomes_what_the_caller_does_next(subject):
    async def work(bench):
        seen = {}
        for status in subject.failures:
            bench.turn("status", status)
            seen[status] = await bench.ask()
        return seen, bench.charged

    seen, charged = await on_bench(subject, work)
    assert charged == 0
    for status, kind in subject.failures.items():
        if subject.raises:
            assert type(seen[status]) is kind, status
            assert str(seen[status]).startswith(f"{subject.called or subject.vendor} ")
        else:
            assert isinstance(seen[status], Paid)
        assert_no_leak(seen[status])


async def test_whatever_goes_wrong_on_the_wire_ends_in_time_and_in_a_kind(subject):
    async def work(bench):
        seen = {}
        for fault in Fault:
            bench.turn(f"fault.{fault}", 1.0)
            seen[fault] = await bench.ask()
            bench.turn(f"fault.{fault}", 0)
        return seen, await bench.ask()

    seen, at_last = await on_bench(subject, work)
    for fault, outcome in seen.items():
        if subject.in_part:
            assert type(outcome) in (Paid, TransientError, PermanentError), fault
        elif subject.raises:
            safe = subject.repeatable or fault in NOTHING_DONE
            assert type(outcome) is (TransientError if safe else UncertainError), fault
        else:
            assert isinstance(outcome, Paid)
        assert_no_leak(outcome)
    assert isinstance(at_last, Paid)


ODD = [
    b"",
    b"\x00",
    b"{",
    b"null",
    b"[]",
    b"3",
    b'"text"',
    b"\xef\xbb\xbf{}",
    b"caf\xe9",
    b'{"results": NaN}',
    b'{"results": [], "results": []}',
    b'{"results": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
    b'{"results": [' + b"9" * 100_000 + b"]}",
    b'{"results": [{"url": "http://a.test/", "title": "\\ud800\\u0000"}]}',
    b'{"results": [' + b"{}," * 200_000 + b"{}]}",
    b'{"email_batch": [' + b'{"address": "x@y.zz"},' * 5_000 + b'{}], "errors": "all"}',
    b"x" * 6_000_000,
    json.dumps({"detail": {"error": CANARY}, "message": CANARY}).encode(),
]


HOSTS = {subject.host for subject in CONNECTORS.values() if subject.raises}


class Parrot:
    """Says whatever it is told to, as every vendor at once."""

    def __init__(self):
        self.says, self.status = b"", 200

    def __call__(self, asked):
        return Response(status=self.status, headers={"content-type": "text/html"}, body=self.says)

    def everywhere(self):
        return {host: lambda *_: self for host in HOSTS}


def assert_bounded(outcome, price):
    """An answer or one of the kinds; and no number in it that could not be settled."""
    assert_no_leak(outcome if isinstance(outcome, StokerError) else "")
    if isinstance(outcome, Paid):
        assert outcome.cost.keys() == price.keys()
        assert all(validate_amount(number) <= 10_000_000 for number in outcome.cost.values())
    else:
        assert type(outcome) in set(StokerError.__subclasses__())


@pytest.mark.parametrize("status", [200, 429, 500])
async def test_an_odd_answer_ends_in_one_of_the_five_errors(subject, status):
    parrot = Parrot()
    parrot.status = status

    async def work(bench):
        price = bench.connector.price(bench.questions[0])
        for body in ODD:
            parrot.says = body
            assert_bounded(await bench.ask(), price)

    await on_bench(subject, work, vendors=parrot.everywhere())


numbers = st.integers(-5, 10**30) | st.floats(allow_nan=False, allow_infinity=False)
leaves = st.none() | st.booleans() | numbers | st.text(max_size=8)
FIELD_NAMES = [
    "results",
    "usage",
    "credits",
    "billing",
    "creditsCharged",
    "id",
    "emails",
    "email",
    "url",
    "title",
    "content",
    "score",
    "has",
    "employeeCount",
    "exact",
    "min",
    "max",
    "error",
    "code",
    "email_batch",
    "errors",
    "address",
    "status",
    "sub_status",
    "failed_results",
    "jobTitle",
    "firstName",
    "lastName",
    "yearFounded",
    "raw_content",
    "ids",
    "messages",
    "record",
    "type",
    "name",
    "data",
    "collectionMetadata",
    "lastUpdatedAt",
    "datasetMetadata",
    "datasetId",
    "jobs",
    "absolute_url",
    "hostedUrl",
    "jobUrl",
    "location",
]
known = st.sampled_from(FIELD_NAMES)
answers = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(known, inner, max_size=6),
    max_leaves=25,
)
shaped = answers | st.fixed_dictionaries(
    {"results": st.lists(answers, max_size=5), "email_batch": st.lists(answers, max_size=5)},
    optional={
        "usage": answers,
        "billing": answers,
        "errors": answers,
        "failed_results": answers,
        "ids": answers,
        "messages": answers,
        "data": answers,
    },
)


def test_no_shape_of_answer_breaks_a_connector():
    """Every connector is told every answer: making them up is what takes time."""
    parrot = Parrot()

    async def opened(stack):
        return [
            await stack.enter_async_context(bench_of(subject, vendors=parrot.everywhere()))
            for subject in CONNECTORS.values()
            if subject.raises
        ]

    async def told(benches):
        for bench in benches:
            assert_bounded(await bench.ask(), bench.connector.price(bench.questions[0]))

    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        benches = runner.run(opened(stack))

        @settings(max_examples=400, deadline=None)
        @given(said=shaped)
        def holds(said):
            parrot.says = json.dumps(said).encode()
            runner.run(told(benches))

        try:
            holds()
        finally:
            runner.run(stack.aclose())


async def test_the_key_is_shown_nowhere(subject, caplog):
    async def work(bench):
        bench.turn("fault.garbage", 1.0)
        outcomes = [await bench.ask(), await bench.connector.check()]
        bench.turn("fault.garbage", 0)
        outcomes += [await bench.ask(), await bench.connector.check()]
        return [bench.connector, vars(bench.connector).get("_vendor"), *outcomes]

    with caplog.at_level(logging.DEBUG):
        shown = await on_bench(subject, work)
    assert_no_leak(*shown, caplog.text)


async def test_a_wrong_key_is_for_a_person_to_mend_and_costs_nothing(subject):
    async def work(bench):
        return await bench.ask(), await bench.connector.check(), bench.charged

    outcome, health, charged = await on_bench(subject, work, key="a-wrong-key")
    if subject.raises:
        assert (type(outcome) is ConfigError) is not subject.takes_any_key
        assert health.ok is subject.takes_any_key
    assert charged == 0


async def test_a_check_never_raises_never_costs_and_says_how_it_is(subject):
    async def work(bench):
        healths = [await bench.connector.check()]
        for status in subject.failures:
            bench.turn("status", status)
            healths.append(await bench.connector.check())
        bench.turn("status", 0)
        for fault in Fault:
            bench.turn(f"fault.{fault}", 1.0)
            healths.append(await bench.connector.check())
            bench.turn(f"fault.{fault}", 0)
        return healths, bench.charged

    (well, *unwell), charged = await on_bench(subject, work)
    assert charged == 0
    assert well.ok
    assert all(health.detail for health in unwell)
    if subject.raises and not subject.public:
        assert not any(health.ok for health in unwell)
    assert_no_leak(well, *unwell)
