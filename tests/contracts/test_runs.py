"""What every store promises about runs, what they found, and asking them to stop."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from contracts.backends import ACME, BACKENDS, UMBRELLA, refused
from stoker.base.errors import ConfigError, ConflictError, PermanentError
from stoker.base.types import MAX_TEXT_LENGTH, EnrichedJob, Job, JobScore
from stoker.runs.model import CancelRequest, Manifest, Run, RunKey, RunState, StepTiming

AT = datetime(2026, 2, 7, 1, 30, tzinfo=UTC)
KEY = RunKey(AT, 7)
RUN = Run(key=KEY, kind="discover")
UNSTORABLE = ["a\0b", "half a pair \ud800", "x" * (MAX_TEXT_LENGTH + 1)]

# Runs are files in the JSON backend, not rows.
pytestmark = pytest.mark.parametrize("backend", BACKENDS, indirect=True)


def later(**by):
    return AT + timedelta(**by)


def job(name, **fields):
    return Job.create(source="feed", url=f"https://example.com/{name}", title=name, **fields)


A, B, C = (job(name) for name in "abc")


def enriched(of, **fields):
    return EnrichedJob(job=of.id, title=of.title, **fields)


def score(of, value=0.5):
    return JobScore(job=of.id, score=value, bucket="moderate")


async def everything(runs, at=AT):
    return (
        await runs.list_runs(),
        await runs.list_jobs(at),
        await runs.list_enriched(at),
        await runs.list_scores(at),
    )


async def test_a_run_comes_back_as_it_went_in(store):
    singapore = timezone(timedelta(hours=8))
    run = Run(
        key=KEY,
        kind="discover",
        instant=later(minutes=-30).astimezone(singapore),
        reason="čeština, 日本語, emoji 🙂, a ' and a \" and a \\",
        manifest=Manifest(
            config_hash="abc",
            config={"retention": {"days": 30, "enabled": True, "odd": None, "list": [1, 2.5]}},
            selected=("x", "y"),
            caps={"pages": 10},
            counts={"found": 3},
            cost={"USD": 1250},
            steps=(StepTiming(step="discover", seconds=1.25, items=3),),
            sources=(StepTiming(step="feed", seconds=0.1),),
            reasons=("because",),
            remaining=("z",),
            resume_at=later(days=1, microseconds=1),
        ),
    )

    await store.runs.insert_run(run)
    back = await store.runs.find_run(AT)
    assert back == run
    assert back.instant.tzinfo is UTC


async def test_a_run_is_found_by_its_moment_in_any_zone(store):
    await store.runs.insert_run(RUN)
    assert await store.runs.find_run(AT.astimezone(timezone(timedelta(hours=-5)))) == RUN
    assert await store.runs.find_run(later(seconds=1)) is None


async def test_a_timestamp_names_one_run(store):
    await store.runs.insert_run(RUN)
    await refused(store.runs.insert_run(replace(RUN, kind="upkeep")), ConflictError)
    assert await store.runs.list_runs() == [RUN]


async def test_a_run_that_has_ended_cannot_start(store):
    await refused(store.runs.insert_run(RUN.end(RunState.DONE, at=AT)), ConflictError)
    assert await store.runs.list_runs() == []


async def test_of_many_that_start_the_same_run_one_does(store):
    tries = (store.runs.insert_run(replace(RUN, kind=f"kind-{n}")) for n in range(8))
    answers = await asyncio.gather(*tries, return_exceptions=True)
    assert [answer for answer in answers if not isinstance(answer, ConflictError)] == [None]
    assert len(await store.runs.list_runs()) == 1


async def test_the_first_end_of_a_run_stands(store):
    done = RUN.end(RunState.PARTIAL, at=later(hours=1), reason="the cap")

    await store.runs.insert_run(RUN)
    await store.runs.finish_run(done)
    await refused(store.runs.finish_run(RUN.end(RunState.FAILED, at=AT)), ConflictError)
    assert await store.runs.find_run(AT) == done


@pytest.mark.parametrize(
    "end",
    [
        RUN,
        replace(RUN, key=RunKey(AT, 8)).end(RunState.DONE, at=AT),
        replace(RUN, key=RunKey(AT, 6)).end(RunState.DONE, at=AT),
        replace(RUN, key=RunKey(later(seconds=1), 7)).end(RunState.DONE, at=AT),
    ],
    ids=["still running", "newer epoch", "older epoch", "another run"],
)
async def test_only_a_run_of_the_same_epoch_is_ended(store, end):
    await store.runs.insert_run(RUN)
    await refused(store.runs.finish_run(end), ConflictError)
    assert await store.runs.list_runs() == [RUN]


@pytest.mark.parametrize(
    ("wanted", "hours"),
    [
        ({}, [3, 2, 1, 0]),
        ({"limit": 2}, [3, 2]),
        ({"limit": 0}, []),
        ({"kind": "a"}, [3, 1, 0]),
        ({"kind": "a", "limit": 1}, [3]),
        ({"kind": "nothing"}, []),
        ({"state": RunState.RUNNING}, [3, 0]),
        ({"state": RunState.DONE, "kind": "a"}, [1]),
        ({"since": later(hours=1)}, [3, 2, 1]),
        ({"since": later(hours=1), "state": RunState.DONE, "limit": 1}, [2]),
        ({"since": later(seconds=1), "kind": "a"}, [3, 1]),
    ],
)
async def test_runs_are_listed_newest_first_by_kind_state_and_time(store, wanted, hours):
    history = enumerate([("a", False), ("a", True), ("b", True), ("a", False)])
    for n, (kind, ends) in sorted(history, key=lambda one: one[0] % 3):
        run = Run(key=RunKey(later(hours=n), 1), kind=kind)
        await store.runs.insert_run(run)
        if ends:
            await store.runs.finish_run(run.end(RunState.DONE, at=later(hours=n + 1)))
    found = await store.runs.list_runs(**wanted)
    assert [(run.at - AT) // timedelta(hours=1) for run in found] == hours


async def test_what_was_found_comes_back_as_it_went_in(store):
    posting = job("d", company="Ünï", location="", posted_at=later(microseconds=-1))
    in_words = enriched(posting, seniority="senior", stack=("python", "čšž"), remote=True)
    good = JobScore(
        job=posting.id, score=0.1 + 0.2, bucket="weak", components={"role_fit": 0.5, "a": 1 / 3}
    )

    await store.runs.insert_run(RUN)
    assert await store.runs.insert_jobs(KEY, [posting]) == 1
    assert await store.runs.insert_enriched(KEY, [in_words]) == 1
    assert await store.runs.insert_scores(KEY, [good]) == 1
    assert await everything(store.runs) == ([RUN], [posting], [in_words], [good])


async def test_a_posting_already_there_is_left_as_it_is(store):
    await store.runs.insert_run(RUN)
    assert await store.runs.insert_jobs(KEY, [A, B, replace(A, title="later")]) == 2
    assert await store.runs.insert_jobs(KEY, [replace(B, title="later"), C]) == 1
    assert await store.runs.insert_enriched(KEY, [enriched(A), enriched(A)]) == 1
    assert await store.runs.insert_enriched(KEY, [enriched(A, remote=True)]) == 0
    assert await store.runs.insert_scores(KEY, [score(A, 0.1), score(A, 0.9)]) == 1
    assert await store.runs.insert_scores(KEY, []) == 0
    _, jobs, in_words, scores = await everything(store.runs)
    assert jobs == sorted([A, B, C], key=lambda job: job.id)
    assert in_words == [enriched(A)]
    assert scores == [score(A, 0.1)]


@pytest.mark.parametrize(
    "key",
    [RunKey(AT, 6), RunKey(AT, 8), RunKey(later(seconds=1), 7)],
    ids=["older epoch", "newer epoch", "no such run"],
)
async def test_a_key_that_does_not_fit_opens_nothing(store, key):
    await store.runs.insert_run(RUN)
    await store.runs.insert_jobs(KEY, [A])
    before = await everything(store.runs)
    await refused(store.runs.insert_jobs(key, [B]), ConflictError)
    await refused(store.runs.insert_enriched(key, [enriched(A)]), ConflictError)
    await refused(store.runs.insert_scores(key, [score(A)]), ConflictError)
    await refused(store.runs.insert_jobs(key, []), ConflictError)
    assert await everything(store.runs) == before


async def test_nothing_is_added_to_a_run_that_has_ended(store):
    await store.runs.insert_run(RUN)
    await store.runs.insert_jobs(KEY, [A])
    await store.runs.finish_run(RUN.end(RunState.FAILED, at=later(hours=1)))
    before = await everything(store.runs)
    await refused(store.runs.insert_jobs(KEY, [B]), ConflictError)
    await refused(store.runs.insert_enriched(KEY, [enriched(A)]), ConflictError)
    await refused(store.runs.insert_scores(KEY, [score(A)]), ConflictError)
    assert await everything(store.runs) == before


async def test_what_speaks_of_a_posting_the_run_does_not_have_is_refused_whole(store):
    elsewhere = Run(key=RunKey(later(seconds=1), 1), kind="discover")

    await store.runs.insert_run(RUN)
    await store.runs.insert_run(elsewhere)
    await store.runs.insert_jobs(KEY, [A])
    await store.runs.insert_jobs(elsewhere.key, [B])
    before = await everything(store.runs)
    both = [A, B]
    await refused(store.runs.insert_enriched(KEY, [enriched(x) for x in both]))
    await refused(store.runs.insert_scores(KEY, [score(x) for x in both]))
    assert await everything(store.runs) == before


async def test_many_at_once_are_kept_and_checked_to_the_last(store):
    jobs = [job(f"{n}") for n in range(1201)]
    stranger = job("stranger")

    await store.runs.insert_run(RUN)
    assert await store.runs.insert_jobs(KEY, jobs) == 1201
    late = [enriched(x) for x in [*jobs, stranger]]
    await refused(store.runs.insert_enriched(KEY, late))
    assert await store.runs.insert_enriched(KEY, late[:-1]) == 1201
    assert len(await store.runs.list_enriched(AT, limit=5000)) == 1201


async def test_pages_put_together_are_the_whole_in_id_order(store):
    jobs = [job(f"{n}") for n in range(25)]

    async def pages(page):
        found, after = [], ""
        while items := await page(AT, after=after, limit=10):
            assert len(items) <= 10
            found += items
            after = getattr(items[-1], "id", None) or items[-1].job
        return found

    await store.runs.insert_run(RUN)
    await store.runs.insert_jobs(KEY, jobs)
    await store.runs.insert_enriched(KEY, [enriched(job) for job in jobs])
    await store.runs.insert_scores(KEY, [score(job) for job in jobs])
    in_order = sorted(jobs, key=lambda job: job.id)
    assert await pages(store.runs.list_jobs) == in_order
    assert await pages(store.runs.list_enriched) == [enriched(job) for job in in_order]
    assert await pages(store.runs.list_scores) == [score(job) for job in in_order]


async def test_pruning_forgets_ended_runs_and_passes_over_the_rest(store):
    ats = [later(seconds=n) for n in range(4)]
    started = [Run(key=RunKey(at, 1), kind="discover") for at in ats]

    for run in started:
        await store.runs.insert_run(run)
        await store.runs.insert_jobs(run.key, [A, B])
        await store.runs.insert_enriched(run.key, [enriched(A)])
        await store.runs.insert_scores(run.key, [score(A)])
    for run in started[:3]:
        await store.runs.finish_run(run.end(RunState.DONE, at=later(hours=1)))

    asked = [ats[0], ats[1], ats[1], ats[3], later(days=1)]
    weighed = await store.runs.measure_runs(asked)
    assert (weighed.runs, weighed.rows) == (2, 10)
    assert weighed.bytes > 0
    assert len(await store.runs.list_runs()) == 4
    assert await store.runs.delete_runs(asked) == weighed

    assert [run.at for run in await store.runs.list_runs()] == [ats[3], ats[2]]
    assert await everything(store.runs, ats[0]) == (await store.runs.list_runs(), [], [], [])
    assert len(await store.runs.list_jobs(ats[2])) == len(await store.runs.list_jobs(ats[3])) == 2
    again = await store.runs.delete_runs(asked)
    assert (again.runs, again.rows) == (0, 0)
    await store.runs.insert_run(started[0])


@pytest.mark.parametrize("text", UNSTORABLE, ids=["NUL", "half a pair", "too long"])
async def test_text_that_cannot_be_kept_is_refused_whole(store, text):
    bad = replace(A, title=text)
    named = replace(A, id=text)

    runs = store.runs
    await refused(runs.insert_run(replace(RUN, kind=text)))
    await refused(runs.insert_run(replace(RUN, reason=text)))
    odd = Manifest(config={"note": [text]})
    await refused(runs.insert_run(replace(RUN, manifest=odd)))
    await runs.insert_run(RUN)
    await refused(runs.insert_jobs(KEY, [B, bad]))
    await refused(runs.insert_jobs(KEY, [named, B]))
    await runs.insert_jobs(KEY, [A])
    before = await everything(runs)
    await refused(runs.insert_enriched(KEY, [enriched(A), enriched(bad)]))
    await refused(runs.insert_enriched(KEY, [enriched(A, stack=(text,))]))
    await refused(runs.insert_scores(KEY, [replace(score(A), bucket=text)]))
    await refused(runs.insert_scores(KEY, [score(named)]))
    await refused(runs.finish_run(RUN.end(RunState.DONE, at=AT, reason=text)))
    assert await everything(runs) == before


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
async def test_json_that_is_none_is_refused(store, number):
    odd = Manifest(config={"weight": number})
    await refused(store.runs.insert_run(replace(RUN, manifest=odd)))
    await store.runs.insert_run(RUN)
    await store.runs.insert_jobs(KEY, [A])
    bad = replace(score(A), components={"role_fit": number})
    await refused(store.runs.insert_scores(KEY, [bad]))
    assert await everything(store.runs) == ([RUN], [A], [], [])


async def test_a_moment_without_a_zone_is_refused(store):
    naive = AT.replace(tzinfo=None)

    await refused(store.runs.insert_run(replace(RUN, instant=naive)), ConfigError)
    await store.runs.insert_run(RUN)
    await refused(store.runs.find_run(naive), ConfigError)
    await refused(store.runs.list_jobs(naive), ConfigError)
    await refused(store.runs.delete_runs([naive]), ConfigError)
    await refused(store.runs.measure_runs([AT, naive]), ConfigError)
    ended = replace(RUN, state=RunState.DONE, ended_at=naive)
    await refused(store.runs.finish_run(ended), ConfigError)
    assert await store.runs.list_runs() == [RUN]


async def test_one_tenant_cannot_see_or_touch_what_another_has(backend):
    acme, umbrella = backend.tenant(ACME).runs, backend.tenant(UMBRELLA).runs
    await acme.insert_run(RUN)
    await acme.insert_jobs(KEY, [A])
    assert await everything(umbrella) == ([], [], [], [])
    await refused(umbrella.insert_jobs(KEY, [B]), ConflictError)
    await refused(umbrella.finish_run(RUN.end(RunState.DONE, at=AT)), ConflictError)
    theirs = replace(RUN, kind="upkeep")
    await umbrella.insert_run(theirs)
    await refused(umbrella.insert_scores(KEY, [score(A)]))
    await umbrella.finish_run(theirs.end(RunState.DONE, at=AT))
    assert (await umbrella.delete_runs([AT])).rows == 1
    assert await everything(acme) == ([RUN], [A], [], [])


async def test_a_tenant_asked_for_again_has_the_same_store(backend):
    await backend.tenant(ACME).runs.insert_run(RUN)
    assert await backend.tenant(ACME).runs.list_runs() == [RUN]


DONE = RUN.end(RunState.DONE, at=later(hours=1))
REQUEST = CancelRequest(by="ünï@host 🙂", at=later(minutes=5, microseconds=1))


async def test_a_request_comes_back_as_it_went_in_and_leaves_the_run_as_it_is(store):
    singapore = timezone(timedelta(hours=8))
    await store.runs.insert_run(RUN)
    assert await store.runs.find_cancel_request(AT) is None
    asked = replace(REQUEST, at=REQUEST.at.astimezone(singapore))
    assert await store.runs.request_cancel(AT.astimezone(singapore), asked) == REQUEST
    back = await store.runs.find_cancel_request(AT)
    assert back == REQUEST
    assert back.at.tzinfo is UTC
    assert await store.runs.list_runs() == [RUN]


async def test_the_first_cancel_request_stays(store):
    await store.runs.insert_run(RUN)
    requests = [replace(REQUEST, by=f"person {n}") for n in range(8)]
    told = await asyncio.gather(*(store.runs.request_cancel(AT, each) for each in requests))
    assert len(set(told)) == 1
    assert told[0] in requests
    assert await store.runs.find_cancel_request(AT) == told[0]


async def test_a_run_that_has_ended_is_not_asked(store):
    await store.runs.insert_run(RUN)
    await store.runs.finish_run(DONE)
    assert await store.runs.request_cancel(AT, REQUEST) is None
    assert await store.runs.find_cancel_request(AT) is None
    assert await store.runs.find_run(AT) == DONE


async def test_a_run_that_is_not_there_is_not_asked(store):
    for at in (AT, AT + timedelta(microseconds=1)):
        assert await store.runs.request_cancel(at, REQUEST) is None
        assert await store.runs.find_cancel_request(at) is None
    await store.runs.insert_run(RUN)
    assert await store.runs.find_cancel_request(AT) is None


async def test_a_request_outlives_the_end_of_its_run_and_goes_when_it_is_forgotten(store):
    await store.runs.insert_run(RUN)
    await store.runs.request_cancel(AT, REQUEST)
    await store.runs.finish_run(DONE)
    assert await store.runs.find_cancel_request(AT) == REQUEST
    weight = await store.runs.measure_runs([AT])
    assert (weight.runs, weight.rows) == (1, 1)
    assert await store.runs.delete_runs([AT]) == weight
    assert await store.runs.find_cancel_request(AT) is None
    await store.runs.insert_run(RUN)
    assert await store.runs.find_cancel_request(AT) is None


async def test_a_request_that_cannot_be_kept_is_refused(store):
    await store.runs.insert_run(RUN)
    for by in ("a\0b", "half a pair \ud800"):
        with pytest.raises(PermanentError):
            await store.runs.request_cancel(AT, replace(REQUEST, by=by))
    with pytest.raises(ConfigError):
        await store.runs.request_cancel(AT, replace(REQUEST, at=AT.replace(tzinfo=None)))
    with pytest.raises(ConfigError):
        await store.runs.request_cancel(AT.replace(tzinfo=None), REQUEST)
    assert await store.runs.find_cancel_request(AT) is None


async def test_one_tenant_cannot_stop_what_another_runs(backend):
    acme, umbrella = backend.tenant(ACME).runs, backend.tenant(UMBRELLA).runs
    await acme.insert_run(RUN)
    assert await umbrella.request_cancel(AT, REQUEST) is None
    await umbrella.insert_run(RUN)
    await umbrella.request_cancel(AT, REQUEST)
    assert await acme.find_cancel_request(AT) is None
