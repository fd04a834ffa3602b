"""OpenAI asked to word a rationale: little is promised, and what it says is held to the rules."""

import json
from datetime import timedelta
from decimal import Decimal

import pytest

from stoker.accounts.icp import IcpRule
from stoker.accounts.model import Company, CompanyId, CompanyRecord
from stoker.http.client import HttpClient
from stoker.leads.rationale import MAX_OUTPUT_TOKENS, OpenAiRationales, build_rationale_query
from stoker.leads.scoring import score_lead
from stoker.leads.settings import ScoreRule
from stoker.sandbox.http import Response
from stoker.sandbox.server import Sandbox
from stoker.vendors.openai import Prices, build_openai_api

LUNA = Prices(input=Decimal("0.20"), cached=Decimal("0.02"), output=Decimal("1.20"))
COMPANY = Company(id=CompanyId("acme"), name="Acme", ssic="62011", employees=9)
QUESTION = build_rationale_query(score_lead(CompanyRecord(company=COMPANY), IcpRule()), ScoreRule())
GOOD = "Its industry is the one wanted and its size fits. Nobody can be written to yet."


async def asked(*, dials=None, vendors=None, **settings):
    how = {} if vendors is None else {"vendors": vendors}
    async with Sandbox(dials=dials, **how) as box:
        http = HttpClient(user_agent="Stoker test", sandbox=box.address)
        try:
            vendor = build_openai_api(
                http,
                key="sk-canary-5f1e",
                base_url="http://openai.test",
                deadline=timedelta(seconds=5),
            )
            model = OpenAiRationales(
                vendor, **{"model": "gpt-5.6-luna", "prices": LUNA, **settings}
            )
            done = await model.ask(QUESTION, key="k")
            return done, model.price(QUESTION), box.charges, await model.check()
        finally:
            await http.close()


def answering(text, *, seen=None, **more):
    """Return a vendor whose model always says the same."""
    data = {
        "status": "completed",
        "output": [{"type": "message", "content": [{"type": "output_text", "text": text}]}],
        "usage": {"input_tokens": 10, "output_tokens": 5},
        **more,
    }

    def vendor(*_):
        def answer(asked_for):
            if seen is not None and asked_for.body:
                seen.append(json.loads(asked_for.body))
            return Response(body=json.dumps(data).encode())

        return answer

    return {"openai.test": vendor}


async def test_a_rationale_is_worded_at_what_the_vendor_counted_within_a_small_promise():
    done, promised, charges, health = await asked()
    assert done.answer.text == (
        "What speaks for this lead: little is known. "
        "What speaks against it: no decision maker known."
    )
    assert done.cost["tokens"] == charges["openai"]["tokens"] <= promised["tokens"] < 3_000
    assert done.cost["money:USD"] <= promised["money:USD"] == 1
    assert health.ok


async def test_the_model_is_sent_the_question_a_strict_schema_and_nothing_else():
    seen = []
    await asked(vendors=answering("{}", seen=seen))
    [body] = seen
    assert body["input"] == [{"role": "user", "content": QUESTION.facts_text}]
    assert body["text"]["format"]["strict"] is True
    assert body["max_output_tokens"] == MAX_OUTPUT_TOKENS
    assert body["store"] is False
    assert "tools" not in body
    assert "Acme" not in json.dumps(body)


@pytest.mark.parametrize(
    ("effort", "sent"),
    [("none", "none"), ("minimal", "minimal"), ("low", "low"), ("medium", "low"), ("high", "low")],
)
async def test_nobody_thinks_so_long_about_two_sentences_that_none_are_left(effort, sent):
    seen = []
    await asked(vendors=answering("{}", seen=seen), effort=effort)
    assert seen[0]["reasoning"]["effort"] == sent
    assert (await asked(effort=effort))[0].answer.text


@pytest.mark.parametrize(
    ("said", "note"),
    [
        (json.dumps({"rationale": GOOD}), ""),
        (json.dumps({"rationale": "It has 40 employees, which fits."}), "a number"),
        (json.dumps({"rationale": GOOD})[:-20], "cannot be read"),
        (json.dumps({"rationale": 7}), "has 0 characters"),
        (json.dumps([GOOD]), "has 0 characters"),
        (GOOD, "cannot be read"),
        ('{"rationale": "\\ud800 fits the rule very well."}', "plain words"),
        ("", "is empty"),
    ],
)
async def test_an_answer_that_cannot_stand_says_why_and_is_paid_for(said, note):
    done, *_ = await asked(vendors=answering(said))
    assert note in done.answer.note
    assert bool(done.answer.text) is not bool(note)
    assert done.cost["tokens"] == 15


async def test_a_model_that_declines_is_a_note():
    done, *_ = await asked(dials={"openai.refuses": 1.0})
    assert done.answer.note == "the model declined to answer"


async def test_a_hijacked_model_leaves_our_own_sentence():
    done, *_ = await asked(dials={"openai.obeys": 2})
    assert done.answer.text == ""
    assert "not about the score" in done.answer.note
