"""Exports and undoings killed at random moments and done again, tried and tallied."""

import asyncio
import os
import random
import shutil
import signal
import time
from collections import Counter
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from faults.crm_worker import FIRST, FOURTH, PAGE, SECOND, THIRD, build_records, desk
from faults.forks import Forks
from faults.tally import Tally
from kit.crm_office import Office, ask_as_person, list_records
from running_box import RunningBox
from stoker.crm.model import LEAD, PARTNER

KINDS = ("make", "change", "undo", "return")  # the last: news of what was taken back
BEFORE = "before"  # a store in which a night's findings are, and nothing was sent


@dataclass(frozen=True)
class Lab:
    """A sandbox that outlives every process that is killed."""

    box: RunningBox
    room: Path
    protocol: str
    way: str = ""

    def desk(self, database: str) -> AbstractAsyncContextManager[Office]:
        path = self.room / f"{database}.db"
        return desk(path, self.box.box.address, database, self.protocol, self.way)

    def truth(self, database: str) -> list:
        records = [
            (model, sorted(shown.items()))
            for model in (PARTNER, LEAD)
            for shown in list_records(self.box, database, model).values()
        ]
        return sorted(records, key=str)


def killed(rng: random.Random, n: int, room: Path, *, protocol: str, way: str = "") -> Tally:
    """Kill n workers at random moments, let another finish; tally what is not as undisturbed."""
    tally = Tally()
    with RunningBox(companies=5) as box, Forks("faults.crm_worker") as forks:
        box.faults.set_value("odoo.latency_low", timedelta(milliseconds=1))
        box.faults.set_value("odoo.latency_high", timedelta(milliseconds=6))
        lab = Lab(box, room, protocol, way)
        asyncio.run(_known(lab))
        calm, took = {}, {}
        for kind in KINDS[:1] if way else KINDS:
            asyncio.run(_prepared(lab, f"calm-{kind}", kind))
            took[kind] = _carried_out(lab, forks, f"calm-{kind}", kind)
            calm[kind] = lab.truth(f"calm-{kind}")
        nth = 0
        while tally.n < n and nth < 3 * n:
            kind, database = tuple(calm)[nth % len(calm)], f"trial-{nth}"
            asyncio.run(_prepared(lab, database, kind))
            tally.n += _killed(lab, forks, database, kind, rng.uniform(0, took[kind]))
            asyncio.run(_finished(lab, database, kind))
            tally.broken += _judged(lab, database, kind, calm[kind])
            tally.acked += 1
            nth += 1
    return tally


def _judged(lab: Lab, database: str, kind: str, calm: list) -> list[str]:
    truth = lab.truth(database)
    where = f"{database}, {kind}"
    names = Counter((model, dict(shown)["name"]) for model, shown in truth)
    wrong = [f"{where}: {many} of {name}" for name, many in names.items() if many > 1]
    if not wrong and truth != calm:
        wrong.append(f"{where}: it is not as after an undisturbed night")
    writes = lab.box.meter.get_charged("odoo", unit="writes", key=database)
    asyncio.run(_finished(lab, database, kind, run=FOURTH))
    if lab.box.meter.get_charged("odoo", unit="writes", key=database) != writes:
        wrong.append(f"{where}: once more, and something was written again")
    return wrong


async def _known(lab: Lab) -> None:
    async with lab.desk(BEFORE) as office:
        await office.know(*build_records("one"), run=FIRST)


async def _prepared(lab: Lab, database: str, kind: str) -> None:
    shutil.copy(lab.room / f"{BEFORE}.db", lab.room / f"{database}.db")
    if kind == "make":
        return
    async with lab.desk(database) as office:
        await office.export(FIRST, page=PAGE)
        if kind == "return":
            _edit(lab, database, "Acme 2", active=False)
            await office.undo(FIRST)
            await office.know(*build_records("two"), run=SECOND)
            return
        _edit(lab, database, "Mei 3", phone="a person's")
        await office.know(*build_records("two"), run=SECOND)
        if kind == "undo":
            await office.export(SECOND, page=PAGE)
            _edit(lab, database, "Mei 5", phone="a person's too")


def _edit(lab: Lab, database: str, name: str, **values: str | bool) -> None:
    named = [["name", "=", name]]
    ids = ask_as_person(lab.box, database, PARTNER, "search", domain=named)
    assert len(ids) == 1
    assert ask_as_person(lab.box, database, PARTNER, "write", ids=ids, vals=values) is True


async def _finished(lab: Lab, database: str, kind: str, run: str = THIRD) -> None:
    async with lab.desk(database) as office:
        await (office.undo(SECOND) if kind == "undo" else office.export(run, page=PAGE))


def _start(lab: Lab, forks: Forks, database: str, kind: str) -> int:
    return forks.start(
        {
            "path": lab.room / f"{database}.db",
            "desk": (lab.box.box.address, database, lab.protocol, lab.way),
            "run": SECOND,
            "undo": kind == "undo",
        }
    )


def _carried_out(lab: Lab, forks: Forks, database: str, kind: str) -> float:
    began = time.monotonic()
    assert forks.wait(_start(lab, forks, database, kind)) == 0
    return time.monotonic() - began


def _killed(lab: Lab, forks: Forks, database: str, kind: str, after: float) -> bool:
    """Kill it so long after its start; return whether it was still at work."""
    pid = _start(lab, forks, database, kind)
    time.sleep(after)
    os.kill(pid, signal.SIGKILL)
    return forks.wait(pid) == -signal.SIGKILL
