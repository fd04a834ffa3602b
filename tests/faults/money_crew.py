"""A program whose processes spend from one store at once, some of them until they are killed.

It is given an order as JSON and answers with one line of JSON. It has imported everything and
opened nothing, so that another process is one fork away. Kills are spread over the operations, at
random and at a stated rate: however slow the machine, something gets done in between.
What became of the money is for others to judge (`money_trials.py`).
"""

import asyncio
import json
import multiprocessing
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

from faults.money_counts import Count, Counts
from faults.money_twins import TWINS
from faults.money_work import Order, rush, spend, watch

TASKS = {"rush": rush, "spend": spend, **TWINS}
A_MOMENT = 0.005


class Crew:
    """The processes at work, each in its worker's place."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.counts = Counts(order["workers"])
        self.kills = self.restarts = self.failed = self.cut_off = 0
        self._work = TASKS[order["task"]]
        self._barrier = multiprocessing.get_context("fork").Barrier(order["workers"])
        self._alive: dict[int, int] = {}  # by process id, the worker
        self._chance = random.Random(order.get("seed"))
        self._lives = 0
        self._kill_at = self._next_kill()

    def work(self) -> None:
        """Let everybody loose, and be back when all are done."""
        for worker in range(self.order["workers"]):
            self._start(worker)
        watcher = self._watcher()
        began = told_at = time.monotonic()
        while self._alive:
            time.sleep(self._chance.uniform(0, 2 * A_MOMENT))
            self._bury()
            if self._kill_at and self._kill_at <= self._done() < self.order["operations"]:
                self._kill()
                self._kill_at = self._next_kill()
            if (now := time.monotonic()) - told_at >= self.order.get("tell_every", float("inf")):
                told_at = now
                self._tell(now - began)
        if watcher:
            os.kill(watcher, signal.SIGKILL)
            os.waitpid(watcher, 0)

    def _start(self, worker: int) -> None:
        life, self._lives = self._lives, self._lives + 1
        pid = forked(lambda: self._work(self.order, self.counts, worker, self._barrier, life))
        self._alive[pid] = worker

    def _watcher(self) -> int:
        if self.order["task"] != "spend":
            return 0
        return forked(lambda: watch(self.order, self.counts))

    def _bury(self) -> None:
        for pid in list(self._alive):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                self.failed += status != 0
                del self._alive[pid]

    def _kill(self) -> None:
        if not self._alive:
            return
        victim = self._chance.choice(sorted(self._alive))
        os.kill(victim, signal.SIGKILL)
        os.waitpid(victim, 0)
        worker = self._alive.pop(victim)
        # Nobody will hear of these any more, whether they were done or not.
        unheard = self.counts.under_way(worker)
        self.counts.add(worker, Count.BEGUN, -unheard)
        self.cut_off += unheard
        self.kills += 1
        if self._done() < self.order["operations"]:
            self._start(worker)
            self.restarts += 1

    def _next_kill(self) -> int:
        if not (every := self.order.get("kill_every")):
            return 0
        return self._done() + 1 + int(self._chance.expovariate(1 / every))

    def _done(self) -> int:
        return self.counts.all(Count.DONE)

    def _tell(self, elapsed: float) -> None:
        done = self._done()
        print(
            f"  {done:,} of {self.order['operations']:,} operations, {done / elapsed:,.0f} a "
            f"second, {self.kills:,} kills, {self.counts.all(Count.LOOKS):,} looks at all totals, "
            f"{self.counts.all(Count.BREACHES)} above a cap",
            file=sys.stderr,
            flush=True,
        )


def forked(work: Callable[[], Any]) -> int:
    """Run an async function in a process of its own; return its id."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        asyncio.run(work())
        code = 0
    except BaseException:  # noqa: BLE001 – there is nobody above to say it
        traceback.print_exc()
    finally:
        os._exit(code)


def main(order: Order) -> dict[str, int]:
    """Let the crew loose, kill some of it when ordered, and return what was counted."""
    crew = Crew(order)
    began = time.monotonic()
    crew.work()
    counted = {
        "operations": Count.DONE,
        "granted": Count.GRANTED,
        "refused": Count.REFUSED,
        "settled": Count.SETTLED,
        "gave way": Count.GAVE_WAY,
        "looks": Count.LOOKS,
        "breaches": Count.BREACHES,
    }
    return {
        **{name: crew.counts.all(count) for name, count in counted.items()},
        "kills": crew.kills,
        "restarts": crew.restarts,
        "cut off": crew.cut_off,
        "failed": crew.failed,
        "seconds": round(time.monotonic() - began),
    }


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
