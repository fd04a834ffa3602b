"""Calls in worker processes: what strangers' bytes can do to one stays there."""

import asyncio
import os
import select
import signal
import subprocess
import sys
import time
from datetime import timedelta

import pytest

from stoker.base.errors import PermanentError
from stoker.base.process_pool import MAX_RESULT_BYTES, MAX_WORKERS, Aborted, ProcessPool
from stoker.base.strict_json import parse_json
from stoker.crawl.model import VisitEnd, VisitOutcome


async def run(function, *args, **kwargs):
    return await ProcessPool(workers=1, cpu_seconds=0.2).run(function, *args, **kwargs)


@pytest.mark.parametrize(
    ("function", "args", "reason"),
    [
        (pow, (3, 50_000_000), "it takes too much processor time to read"),  # in C, all of it
        (bytes, (10**10,), "it takes too much memory to read"),
        (os.abort, (), "reading it ended its process"),
        (os._exit, (0,), "reading it ended its process"),
        (bytes, (MAX_RESULT_BYTES + 1,), "reading it ended its process"),
        (int, ("x",), "reading it failed (ValueError)"),
        # What a worker in a stranger's hands could send: only plain values are taken.
        (compile, ("1", "x", "eval"), "reading it failed (TypeError)"),
        (time.gmtime, (0,), "reading it ended its process"),
    ],
)
async def test_what_goes_wrong_in_a_worker_is_a_value_and_the_next_call_works(
    function, args, reason
):
    assert await run(function, *args) == Aborted(reason)
    assert await run(pow, 2, 10) == 1024


async def test_values_of_ours_come_back_and_so_do_errors_of_the_function():
    end = VisitEnd(VisitOutcome.READ, "fine")
    assert await run(max, [(end, timedelta(1))], key=str) == (end, timedelta(1))
    with pytest.raises(PermanentError, match="not JSON as it should be"):
        await run(parse_json, b"{")


async def test_a_worker_has_nothing_of_ours(monkeypatch):
    monkeypatch.setenv("TAVILY_API_KEY", "secret")
    assert "TAVILY_API_KEY" not in await run(eval, "dict(__import__('os').environ)")
    assert sorted(await run(os.listdir, "/proc/self/fd")) == ["0", "1", "2", "3", "4"]


async def test_a_call_that_is_given_up_ends_its_worker_and_no_more_run_at_once_than_allowed():
    pool = ProcessPool(workers=1)
    first = os.pidfd_open(await pool.run(os.getpid))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await pool.run(time.sleep, 60)
    assert has_ended(first)
    assert len(set(await asyncio.gather(*(pool.run(os.getpid) for _ in range(5))))) == 1


PREPARES = """
import asyncio, colorsys
from stoker.base.process_pool import ProcessPool
async def main():
    pool = ProcessPool()
    pool.prepare(colorsys.rgb_to_hls)
    await asyncio.sleep(0)  # the workers are asked for before the next call
    print(await pool.run(eval, "'colorsys' in __import__('sys').modules"))
asyncio.run(main())
"""


def test_prepared_workers_have_imported_what_the_next_call_needs():
    command = [sys.executable, "-c", PREPARES]  # a new process: this one may have idle workers
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True"]
    assert done.stderr == ""


async def test_all_pools_together_use_no_more_workers_than_there_are_processors():
    pids = await asyncio.gather(*(ProcessPool().run(os.getpid) for _ in range(20)))
    assert len(set(pids)) <= min(MAX_WORKERS, os.cpu_count())


def has_ended(process):
    try:
        return select.select([process], [], [], 30)[0] == [process]
    finally:
        os.close(process)


PARENT = """
import asyncio, os, time
from stoker.base.process_pool import ProcessPool
async def main():
    pool = ProcessPool(workers=2, cpu_seconds=0.2)
    print(*await asyncio.gather(pool.run(os.getpid), pool.run(os.getpid)), flush=True)
    await pool.run({work})
asyncio.run(main())
"""


@pytest.mark.parametrize("work", ["time.sleep, 0.2", "pow, 3, 50_000_000"])
def test_workers_end_with_the_process_even_when_it_is_killed(work):
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT.format(work=work)], stdout=subprocess.PIPE, text=True
    )
    workers = [os.pidfd_open(int(pid)) for pid in parent.stdout.readline().split()]
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    assert all(map(has_ended, workers))
