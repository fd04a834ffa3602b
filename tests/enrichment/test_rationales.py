"""Rationales worded by a model: asked for once, and missed by nobody when there is no answer."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import pytest

from stoker.accounts.icp import IcpRule
from stoker.accounts.model import Company, CompanyId, CompanyRecord
from stoker.base.errors import ConfigError, PermanentError, TransientError, UncertainError
from stoker.base.types import Depth, Step
from stoker.budgets.model import Paid
from stoker.budgets.reservations import ReservationStatus
from stoker.enrichment.enrich import CompanyEnricher
from stoker.enrichment.model import CompanyVendors, WorkItem, WorkState
from stoker.enrichment.outcomes import LookupLog
from stoker.leads.rationale import (
    RATIONALE_TTL,
    OpenAiRationales,
    RationaleAnswer,
    build_rationale_query,
)
from stoker.leads.scoring import score_lead
from stoker.leads.settings import ScoreRule
from stoker.testing import FakeClock
from stoker.vendors.openai import build_openai_api
from vendor_desk import A_LOT
from vendor_desk import at_desk as at_any_desk

RULE = ScoreRule()
STAYS = "score: the rationale was not reworded: "


async def at_desk(work, *, limit=A_LOT, **how):
    return await at_any_desk(work, capped=("openai",), limit=limit, **how)


def score_of(name, *, employees=9):
    company = Company(id=CompanyId(name), name=name, ssic="62011", employees=employees)
    return score_lead(CompanyRecord(company=company), IcpRule(), RULE)


SCORE = score_of("acme")


class Model:
    """A model that always does the same; it counts."""

    name = "openai"

    def __init__(self, does, *, price=None):
        self._does, self._price, self.asked = does, price, 0

    def price(self, question):
        if self._price is not None:
            raise self._price
        return {"calls": 1}

    async def ask(self, question, *, key):
        self.asked += 1
        if isinstance(self._does, Exception):
            raise self._does
        return Paid(answer=self._does, cost={"calls": 1})


def sandbox_model(here):
    vendor = build_openai_api(here.http, key="sk-test-1234", base_url="http://openai.test")
    return OpenAiRationales(vendor, model="gpt-5.6-luna")


async def reworded(here, model, score=SCORE, *, run="r1", ours=lambda: True):
    """Return a score as it came back, and the unit as it ended."""
    unit = WorkItem(company=CompanyId("acme"), rank=0, depth=Depth.DEEP)
    book = LookupLog(unit, clock=here.clock)
    enricher = CompanyEnricher(
        here.store,
        client=here.get_vendor_client,
        vendors=CompanyVendors(crawler=None, extract_facts=None, rationales=model),
        steps=(Step.SCORE,),
        corpus_limit=1,
        run=run,
        queue=SimpleNamespace(is_owner=ours),
    )
    after = await enricher.reword_rationale(score, RULE, book)
    assert book.skipped == []  # which is what would be owed
    return after, book.build_result()


async def test_a_score_gets_other_words_and_nothing_else_of_it_changes():
    async def work(here):
        return await reworded(here, sandbox_model(here))

    after, ended = await at_desk(work)
    assert after.rationale == (
        "Low (0.00): 9 employees; software (SSIC 62011); but no decision maker known. "
        "What speaks for this lead: little is known. "
        "What speaks against it: no decision maker known."
    )
    assert replace(after, rationale=SCORE.rationale) == SCORE
    assert (ended.state, ended.reasons) == (WorkState.DONE, ())
    assert ended.cost["openai/calls"] == 1


async def test_what_it_costs_is_promised_under_its_run_and_settled():
    async def work(here):
        await reworded(here, sandbox_model(here))
        asked = build_rationale_query(SCORE, RULE).as_json()
        key = here.get_vendor_client.build_key("openai", account="", asked=asked)
        return await here.store.budgets.find_reservation(f"{key}/1"), here.box.charges["openai"][
            "tokens"
        ]

    hold, charged = await at_desk(work)
    assert (hold.run, hold.status) == ("r1", ReservationStatus.SETTLED)
    assert hold.actual["tokens"] == charged < hold.amounts["tokens"]


async def test_companies_with_the_same_features_share_one_answer_also_at_once_and_on_later_nights():
    async def work(here):
        model = sandbox_model(here)
        both = await asyncio.gather(
            reworded(here, model, score_of("one")), reworded(here, model, score_of("two"))
        )
        charged = here.box.charges["openai"]["tokens"]
        here.clock.advance(RATIONALE_TTL - timedelta(hours=1))
        later = await reworded(here, model, run="r2")
        unlike = await reworded(here, model, score_of("three", employees=5_000), run="r2")
        return [*both, later], charged, unlike, here.box.charges["openai"]["tokens"]

    alike, charged, (unlike, paid_for), charged_then = await at_desk(work, clock=FakeClock())
    assert len({score.rationale for score, _ in alike}) == 1
    assert sum(unit.cost.get("openai/calls", 0) for _, unit in alike) == 1
    assert sum(unit.saved.get("openai/calls", 0) for _, unit in alike) == 2
    assert unlike.rationale not in {score.rationale for score, _ in alike}
    assert charged + paid_for.cost["openai/tokens"] == charged_then


@pytest.mark.parametrize(
    ("model", "because"),
    [
        (Model(TransientError("it is busy")), "it is busy"),
        (Model(PermanentError("it does not take this")), "it does not take this"),
        (Model(UncertainError("nobody knows")), "nobody knows"),
        (Model(UncertainError("it broke", broke_down=True)), "it broke"),
        (Model(ConfigError("it refuses our key")), "it refuses our key"),
        (Model(None, price=PermanentError("nobody can answer this")), "nobody can answer this"),
        (Model(RationaleAnswer(note="the model declined")), "the model declined"),
    ],
    ids=["busy", "never", "uncertain", "broken", "off", "no price", "declines"],
)
async def test_whatever_goes_wrong_our_own_words_stay_and_the_night_is_no_worse(model, because):
    async def work(here):
        return await reworded(here, model)

    after, ended = await at_desk(work)
    assert after == SCORE
    assert ended.state is WorkState.DONE
    assert ended.reasons == (f"{STAYS}{because}",)


async def test_a_full_cap_and_a_stop_leave_our_own_words_and_pay_nothing():
    async def capped(here):
        return await reworded(here, sandbox_model(here)), here.box.charges

    async def stopped(here):
        await here.store.budgets.stop("openai", reason="dear", now=here.clock.now())
        return await reworded(here, sandbox_model(here)), here.box.charges

    for work, how in ((capped, {"limit": 0}), (stopped, {})):
        (after, ended), charges = await at_desk(work, **how)
        assert after == SCORE
        assert ended.state is WorkState.DONE
        assert ended.reasons[0].startswith(f"{STAYS}openai was not called: ")
        assert charges == {}


async def test_an_answer_that_may_not_stand_is_paid_for_once():
    model = Model(RationaleAnswer(note="the model's rationale is not only plain words"))

    async def work(here):
        return [await reworded(here, model, run=run) for run in ("r1", "r2")]

    assert [after for after, _ in await at_desk(work)] == [SCORE, SCORE]
    assert model.asked == 1


async def test_whoever_lost_its_work_asks_nobody():
    model = Model(RationaleAnswer(text="It fits the rule very well indeed."))

    async def work(here):
        return await reworded(here, model, ours=lambda: False)

    after, _ = await at_desk(work)
    assert after == SCORE
    assert model.asked == 0
