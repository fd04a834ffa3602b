"""What every store promises about asking a run to stop."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from contracts.backends import ACME, BACKENDS, UMBRELLA
from stoker.base.errors import ConfigError, PermanentError
from stoker.runs.model import CancelRequest, Run, RunKey, RunState

AT = datetime(2026, 2, 7, 1, 30, tzinfo=UTC)
RUN = Run(key=RunKey(AT, 7), kind="nightly")
DONE = RUN.end(RunState.DONE, at=AT + timedelta(hours=1))
REQUEST = CancelRequest(by="ünï@host 🙂", at=AT + timedelta(minutes=5, microseconds=1))

# Runs are files in the JSON backend, not rows.
pytestmark = pytest.mark.parametrize("backend", BACKENDS, indirect=True)


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
