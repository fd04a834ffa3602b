"""Nights of a tenant whose rationales a model words: what changes, and what never does."""

from dataclasses import replace

from night_house import ACME, BOLT, house
from stoker.base.types import Step
from stoker.enrichment.outcomes import parse_steps_to_retry
from stoker.runs.model import RunState

ON = "score.llm_rationale = true"
WORDED = "What speaks for this lead"
SCORING = (Step.SELECT, Step.SCORE)


async def at(tmp_path, journey, **how):
    tmp_path.mkdir(exist_ok=True)

    async with house(tmp_path, troubles=False, companies=6, **how) as here:
        return await journey(here)


async def scores(house, tenant=ACME):
    known = await house.store(tenant).accounts.list_company_records()
    return {dossier.company.id: dossier.score for dossier in known}


async def test_a_night_words_rationales_once_for_equal_features_and_changes_no_score(tmp_path):
    async def journey(house):
        run = await house.night()
        return run, await scores(house)

    plain_run, plain = await at(tmp_path / "off", journey)
    run, worded = await at(tmp_path / "on", journey, more=ON)

    assert run.state is plain_run.state is RunState.DONE
    assert all(WORDED in score.rationale for score in worded.values())
    assert not any(WORDED in score.rationale for score in plain.values())
    for company, score in worded.items():
        assert replace(score, rationale="") == replace(plain[company], rationale="")
        opening = plain[company].rationale.partition(": ")[0]
        assert score.rationale.startswith(f"{opening}: ")
    hashes = {score.feature_hash for score in worded.values()}
    more_calls = run.manifest.cost["openai/calls"] - plain_run.manifest.cost["openai/calls"]
    assert more_calls == len(hashes) < len(worded)


async def test_a_second_night_on_unchanged_features_asks_nothing_more(tmp_path):
    async with house(tmp_path, troubles=False, companies=6, more=ON) as here:
        await here.night()
        first, charged = await scores(here), here.charged()["openai"]
        await here.night(again=True)
        assert await scores(here) == first
    assert here.charged()["openai"] == charged


async def test_one_tenants_answers_are_not_anothers(tmp_path):
    async with house(tmp_path, troubles=False, companies=6, more=ON) as here:
        runs = [await here.night(tenant) for tenant in (ACME, BOLT)]
    acme, bolt = (run.manifest.cost["openai/calls"] for run in runs)
    assert acme == bolt


async def test_while_the_model_is_stopped_our_own_words_stay_nothing_is_owed_and_later_it_is_asked(
    tmp_path,
):
    async def plainly(house):
        await house.night()
        return await scores(house), await owed(house)

    async def owed(house):
        known = await house.store().accounts.list_company_records()
        return {each.company.id: parse_steps_to_retry(each.notes) for each in known}

    async def stopped_then_not(house):
        money = house.store().budgets
        await money.stop("openai", reason="dear", now=house.app.clock.now())
        during = await house.night(steps=SCORING, again=True)
        kept = await scores(house)
        left = await owed(house)
        units = await house.units(during)
        await money.resume("openai", now=house.app.clock.now())
        await house.night(steps=SCORING, again=True)
        return during, kept, left, units, await scores(house)

    plain, before = await at(tmp_path, plainly, backend="sqlite")
    during, kept, left, units, after = await at(
        tmp_path, stopped_then_not, backend="sqlite", more=ON
    )

    assert during.state is RunState.DONE
    assert kept == plain
    assert left == before  # addresses that the first night left to verify, and nothing more
    assert set().union(*left.values()) <= {Step.VERIFY}
    assert all("openai was not called" in unit.reasons[0] for unit in units)
    assert all(WORDED in score.rationale for score in after.values())
