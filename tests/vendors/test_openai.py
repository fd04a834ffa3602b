import json
import math
import random
from contextlib import asynccontextmanager
from datetime import timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.accounts.facts import FactField
from stoker.base.errors import ConfigError, StokerError, TransientError, UncertainError
from stoker.base.process_pool import Aborted
from stoker.base.retry import Quota
from stoker.crawl.model import Excerpt
from stoker.http.client import HttpClient
from stoker.sandbox.http import Response
from stoker.sandbox.server import Sandbox
from stoker.vendors.extraction import ExtractionQuery
from stoker.vendors.openai import (
    CentTotal,
    OpenAiExtraction,
    OpenAiModel,
    Prices,
    build_openai_api,
    estimate_max_schema_tokens,
    estimate_max_tokens,
)

KEY = "sk-canary-5f1e"
LUNA = Prices(input=Decimal("0.20"), cached=Decimal("0.02"), output=Decimal("1.20"))
TEXT = """Acme makes anvils and other tools for people who chase birds.
ACME PTE. LTD., founded in 1974, write to hello@acme.test or call +65 6123 4567.
Wile Coyote, Chief Executive Officer"""
QUESTION = ExtractionQuery(
    domain="acme.test", excerpts=(Excerpt(url="http://acme.test/", kind="home", text=TEXT),)
)


@asynccontextmanager
async def asking(*, dials=None, vendors=None, key=KEY, deadline=5, **settings):
    how = {} if vendors is None else {"vendors": vendors}
    async with Sandbox(dials=dials, **how) as box:
        http = HttpClient(user_agent="Stoker test", sandbox=box.address)
        try:
            vendor = build_openai_api(
                http, key=key, base_url="http://openai.test", deadline=timedelta(seconds=deadline)
            )
            settings = {"model": "gpt-5.6-luna", "prices": LUNA, **settings}
            yield OpenAiExtraction(OpenAiModel(vendor, **settings)), box
        finally:
            await http.close()


async def asked(question=QUESTION, **how):
    async with asking(**how) as (connector, box):
        return await connector.ask(question, key="k"), connector.price(question), box.charges


def answering(told):
    """Return a vendor that always answers the same."""
    return {"openai.test": lambda *_: lambda _asked: told}


def saying(data, status=200, headers=None):
    return answering(Response(status=status, headers=headers or {}, body=json.dumps(data).encode()))


def response(text, **more):
    return {
        "status": "completed",
        "output": [{"type": "message", "content": [{"type": "output_text", "text": text}]}],
        "usage": {"input_tokens": 10, "output_tokens": 5},
        **more,
    }


async def test_a_page_becomes_findings_at_what_the_vendor_counted():
    done, promised, charges = await asked()
    found = {each.field: each.value for each in done.answer.facts}
    assert found[FactField.EMAIL] == "hello@acme.test"
    assert found[FactField.PHONE] == "+6561234567"
    assert found[FactField.FOUNDED] == "1974"
    assert found[FactField.PERSON] == "Wile Coyote | Chief Executive Officer"
    assert done.cost["tokens"] == charges["openai"]["tokens"] <= promised["tokens"]
    assert done.cost["money:USD"] <= promised["money:USD"]
    assert set(done.cost) == set(promised) == {"calls", "tokens", "money:USD"}


async def test_without_prices_no_money_is_promised():
    done, promised, _ = await asked(prices=None)
    assert set(done.cost) == set(promised) == {"calls", "tokens"}


async def test_what_the_vendor_remembered_costs_less():
    usage = {"input_tokens": 1_000_000, "output_tokens": 100_000}
    cached = {**usage, "input_tokens_details": {"cached_tokens": 900_000}}
    costs = [
        (await asked(vendors=saying(response("{}", usage=told))))[0].cost["money:USD"]
        for told in (usage, cached)
    ]
    assert costs == [20 + 12, 2 + 2 + 12]  # 1.8 cents are two


async def test_more_cached_than_was_sent_is_not_believed():
    usage = {
        "input_tokens": 10,
        "output_tokens": 0,
        "input_tokens_details": {"cached_tokens": 10**6},
    }
    assert (await asked(vendors=saying(response("{}", usage=usage))))[0].cost["money:USD"] == 1


async def test_the_question_goes_out_strict_without_tools_and_kept_by_nobody():
    seen = []

    def vendor(*_):
        def answer(asked_for):
            seen.append(json.loads(asked_for.body))
            return Response(body=json.dumps(response('{"findings":[]}')).encode())

        return answer

    await asked(vendors={"openai.test": vendor}, effort="none", max_output_tokens=500)
    await asked(vendors={"openai.test": vendor})
    body, thinking = seen
    assert body["text"]["format"]["strict"] is True
    assert body["max_output_tokens"] == 500
    assert (body["store"], body["temperature"]) == (False, 0)
    assert "temperature" not in thinking
    assert thinking["reasoning"] == {"effort": "low"}
    assert "tools" not in body
    assert KEY not in json.dumps(seen)


async def test_a_refusal_is_a_note_without_findings():
    done, _, charges = await asked(dials={"openai.refuses": 1})
    assert done.answer.facts == ()
    assert done.answer.note == "the model declined to answer"
    assert done.cost["tokens"] == charges["openai"]["tokens"]


@pytest.mark.parametrize("room", [16, 80, 120, 200])
async def test_an_answer_that_was_cut_is_read_as_far_as_it_goes(room):
    done, promised, charges = await asked(max_output_tokens=room)
    assert "cut off" in done.answer.note or "cannot be read" in done.answer.note
    assert done.cost["tokens"] == charges["openai"]["tokens"] <= promised["tokens"]
    assert all(each.value in TEXT or each.field is FactField.PHONE for each in done.answer.facts)


async def test_a_rate_limit_says_when_to_come_back():
    with pytest.raises(TransientError) as caught:
        await asked(vendors=saying({}, 429, {"retry-after": "7"}))
    assert caught.value.retry_after == timedelta(seconds=7)
    limits = {"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "1m30.5s"}
    with pytest.raises(TransientError) as caught:
        await asked(vendors=saying({"error": {"code": "rate_limit_exceeded"}}, 429, limits))
    assert caught.value.retry_after == timedelta(seconds=90.5)


@pytest.mark.parametrize(
    ("reset", "wait"),
    [
        ("6ms", timedelta(milliseconds=6)),
        ("2s", timedelta(seconds=2)),
        ("1h0m0s", timedelta(hours=1)),
        ("9999h", timedelta(hours=1)),
        ("soon", None),
        ("-5s", None),
        ("", None),
    ],
)
async def test_when_limits_reset_is_read_and_bounded(reset, wait):
    limits = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": reset}
    with pytest.raises(TransientError) as caught:
        await asked(vendors=saying({}, 429, limits))
    assert caught.value.retry_after == wait


@pytest.mark.parametrize(
    ("left", "reset", "quota"),
    [
        ("59", "6ms", Quota(left=59, window=timedelta(milliseconds=6))),
        ("0", "1m2s", Quota(left=0, window=timedelta(seconds=62))),
        ("-1", "1m2s", None),
        ("nan", "1m2s", None),
        ("3", "soon", None),
        ("3", "0s", None),
    ],
)
async def test_an_answer_says_what_is_left_of_the_requests(left, reset, quota):
    headers = {"x-ratelimit-remaining-requests": left, "x-ratelimit-reset-requests": reset}
    said = {
        "output": [{"content": [{"type": "output_text", "text": "{}"}]}],
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    done, _, _ = await asked(vendors=saying(said, 200, headers))
    assert done.quota == quota


async def test_a_used_up_quota_stops_everything():
    with pytest.raises(ConfigError, match="quota"):
        await asked(dials={"openai.credits": 0})


async def test_a_wrong_key_and_a_wrong_model_stop_everything():
    for how in ({"key": "no-key"}, {"model": "o-none"}):
        with pytest.raises(ConfigError) as caught:
            await asked(**how)
        assert how.get("key", "canary") not in str(caught.value)


@pytest.mark.parametrize("kind", ["error_charged", "hang", "close", "truncated", "garbage"])
async def test_an_answer_that_was_lost_is_uncertain(kind):
    with pytest.raises(UncertainError):
        await asked(dials={f"openai.fault.{kind}": 1}, deadline=1)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        ({}, UncertainError),
        ([], UncertainError),
        ({"output": [{"content": "x"}], "usage": None}, UncertainError),
        (response("{}", usage={"input_tokens": 10**12, "output_tokens": 1}), UncertainError),
    ],
)
async def test_an_answer_that_says_neither_facts_nor_cost_is_uncertain(data, kind):
    with pytest.raises(kind):
        await asked(vendors=saying(data))


async def test_an_answer_without_usage_costs_what_was_promised():
    done, promised, _ = await asked(vendors=saying(response("{}", usage={})))
    assert done.cost == promised


async def test_an_empty_answer_with_usage_is_a_note():
    done, _, _ = await asked(vendors=saying(response("", status="incomplete")))
    assert done.answer.note == "the model's answer was cut off before its first word"
    assert done.cost["tokens"] == 15


async def test_it_says_how_it_is():
    async def run(**how):
        async with asking(**how) as (connector, _):
            return await connector.check()

    assert (await run()).ok
    assert not (await run(key="no-key")).ok
    assert not (await run(model="gpt-none")).ok
    assert not (await run(dials={"openai.fault.close": 1})).ok


@pytest.mark.parametrize(
    "wrong",
    [{"model": "a b"}, {"effort": "huge"}, {"max_output_tokens": 1}, {"model": "../x"}],
)
async def test_a_setting_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(ConfigError):
        await asked(**wrong)


def test_a_price_is_an_amount():
    for wrong in (Decimal(-1), Decimal("nan")):
        with pytest.raises(ConfigError):
            Prices(input=wrong, cached=Decimal(0), output=Decimal(0))


def odd_response(draw):
    """Return a body of an answer that no vendor should give."""
    odd = [
        None,
        True,
        -5,
        1e308,
        "",
        "x" * 10_000,
        [],
        {},
        [None],
        {"text": None},
        "\ud800",
        10**25,
    ]
    whole = response(draw.choice(["", "{", '{"findings":[{}]}', '{"findings":"x"}', "null"]))
    for _ in range(draw.randrange(3)):
        where = draw.choice([whole, whole["usage"] if isinstance(whole["usage"], dict) else whole])
        where[draw.choice([*where, "extra"])] = draw.choice(odd)
    if draw.random() < 0.3:
        whole["output"] = [draw.choice(odd), {"content": [draw.choice(odd), {"type": "refusal"}]}]
    body = json.dumps(whole).encode()
    if draw.random() < 0.3:
        at = draw.randrange(len(body))
        body = body[:at] + draw.choice([b"", b"\x00", b"\xff", b"NaN", b"}" * 50]) + body[at:]
    return body


async def test_no_answer_of_the_vendor_is_anything_but_findings_or_an_error_of_ours():
    draw = random.Random(7)
    bodies = [odd_response(draw) for _ in range(500)]

    def vendor(*_):
        waiting = iter(bodies)
        return lambda _asked: Response(body=next(waiting))

    async def run():
        answers, errors = [], []
        async with asking(vendors={"openai.test": vendor}) as (connector, _):
            for _ in bodies:
                try:
                    answers.append(await connector.ask(QUESTION, key="k"))
                except StokerError as error:
                    errors.append(error)
        return answers, errors

    answers, errors = await run()
    assert min(len(answers), len(errors)) > 50
    assert all(done.cost["tokens"] >= 0 and done.answer.facts == () for done in answers)
    assert {type(error) for error in errors} == {UncertainError}
    assert not any(KEY in str(error) for error in errors)


PROSE = "We help teams across Southeast Asia do more with less, and have done so since then. " * 50


def test_prose_is_promised_about_a_third_of_its_bytes():
    assert len(PROSE) / 3 <= estimate_max_tokens(PROSE) <= len(PROSE) / 2


def test_what_is_no_prose_is_promised_a_token_a_byte():
    for strange in ("x9Q+/zK0" * 100, "𝕬𝖈𝖒𝖊" * 50, "{}[]()<>;:" * 50, "1234567890" * 20):
        assert estimate_max_tokens(strange) >= len(strange.encode())


@given(st.text(max_size=500))
def test_no_text_is_promised_less_than_a_token_for_three_bytes(text):
    assert estimate_max_tokens(text) * 3 >= len(text.encode("utf-8", "replace"))


@given(st.text(max_size=100))
def test_single_letters_between_spaces_are_a_token_each(text):
    spread = " ".join(text)
    assert estimate_max_tokens(spread) >= len(text)


@given(st.text(max_size=200), st.text(max_size=200))
def test_more_texts_are_never_promised_less(one, other):
    assert estimate_max_tokens(one, other) >= estimate_max_tokens(one)


def test_a_schema_is_promised_too():
    assert estimate_max_schema_tokens({"type": "object"}) > 0


async def test_an_answer_that_takes_too_long_to_check_is_left_out_and_paid_for():
    class Overrun:
        async def run(self, function, *args, **kwargs):
            return Aborted("it takes too much processor time to read")

    async with asking() as (connector, _):
        given_up = OpenAiExtraction(connector._model, pool=Overrun())
        done = await given_up.ask(QUESTION, key="k")
    assert done.answer.facts == ()
    assert done.answer.note.startswith("the model's answer is left out")
    assert done.cost["tokens"] > 0


@given(st.lists(st.integers(0, 400), max_size=60))
def test_money_is_added_up_before_it_is_rounded(hundredths):
    total, charged = CentTotal(), []
    prices = [Decimal(each) / 100 for each in hundredths]
    for price in prices:
        charged.append(total.add(price))
        assert 0 <= charged[-1] <= math.ceil(price)  # which is what was reserved for it
        assert sum(charged) >= sum(prices[: len(charged)])
    assert sum(charged) == math.ceil(sum(prices))


def test_eleven_small_calls_cost_one_cent_and_not_eleven():
    total = CentTotal()
    assert sum(total.add(Decimal("0.09")) for _ in range(11)) == 1
