"""Hand-overs of touches killed at random moments and gone on with, tried and tallied."""

import asyncio
import json
import os
import signal
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from faults.forks import Forks
from faults.night_worker import NOON, TENANT, set_ahead
from faults.tally import Tally
from faults.touch_worker import BUSY, desk
from stoker.testing import FakeClock
from stoker.touches.model import Profile
from stoker.touches.queue import list_pending

MORNING = NOON.replace(hour=0)  # eight o'clock where the tenant is
DUE = 16  # touches of the day, all of them due at noon
MOST_KILLS = 4  # of one day
GONE = 200  # seconds after which nothing of a dead process holds anybody up
SETTINGS = f"""
storage.backend = "sqlite"
storage.sqlite_path = "stoker.db"
scheduling.timezone = "Asia/Singapore"
[tenants.{TENANT}]
[touches]
opens = "09:00"
closes = "11:30"
rates = "9-12 1"
min_gap_minutes = 0.1
weekly_target = {7 * DUE}
weekly_cap = 10000
daily_min = {DUE}
daily_max = {DUE}
daily_mean = {DUE}
daily_cap = 10000
hourly_cap = 1000
"""


@dataclass
class Rooms:
    """Days of touches, and a program to fork lives from."""

    forks: Forks
    home: Path
    state: str
    twin: str = ""

    def begin(self, name):
        """Plan a day whose touches are all due; return the room, the moment and the urls."""
        room, began = self.home / name, time.time()
        room.mkdir()
        (room / "stoker.toml").write_text(f'{SETTINGS}state = "{self.state}"\n')

        async def planned():
            async with desk(room, FakeClock(MORNING)) as (_, touching):
                people = [Profile(url=f"https://people.test/{n:03d}") for n in range(8 * DUE)]
                await touching.store.save_profiles(people)
                return [touch.url for touch in list_pending((await touching.load_today()).slot)]

        return room, began, asyncio.run(planned())

    def start(self, room, began, lives):
        set_ahead(room, lives * GONE)
        return self.forks.start({"room": room, "began": began, "twin": self.twin})


def lines(room):
    """Return what was handed over, as far as whole lines tell."""
    path = room / "touches.jsonl"
    return path.read_text().splitlines() if path.exists() else []


def killed(rng, kills, home, *, state, twin=""):
    """Kill hand-overs so many times; tally touches that never left, left twice or are not known."""
    tally, day = Tally(), 0
    with Forks("faults.touch_worker") as forks:
        trial = Rooms(forks, home, state, twin)
        while tally.n < kills:
            day += 1
            room, began, due = trial.begin(f"{state}-{day}")
            lives = 0
            for _ in range(rng.randint(1, MOST_KILLS)):
                tally.n += _killed_once(trial, rng, room, began, lives)
                lives += 1
            if code := trial.forks.wait(trial.start(room, began, lives)):
                tally.broken.append(f"{state}, day {day}: the last life ended with {code}")
            tally += _looked_at(trial, room, began, due, f"{state}, day {day}")
    return tally


def _killed_once(trial, rng, room, began, lives):
    """Kill a life once it has handed over a few more; say whether it was killed."""
    wanted, so_far = rng.randint(0, 4), len(lines(room))
    pid = trial.start(room, began, lives)
    # By what it has done, not by a clock: on a busy machine it gets as far as on an idle one.
    while len(lines(room)) < min(so_far + wanted, DUE - 1) and not _ended(pid):
        time.sleep(0.0005)
    time.sleep(rng.random() * 0.004)
    os.kill(pid, signal.SIGKILL)
    return trial.forks.wait(pid) == -signal.SIGKILL


def _ended(pid):
    """Return whether a process has ended and only its parent's wait is missing."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def _looked_at(trial, room, began, due, where):
    async def known():
        async with desk(room, FakeClock(NOON)) as (_, touching):
            return (await touching.load_today()).deliveries

    handed = asyncio.run(known())
    broken, said = [], []
    for line in lines(room):
        try:
            said.append(json.loads(line))
        except ValueError:
            broken.append(f"{where}: a torn line, {line[:80]!r}")
    left = Counter(each["url"] for each in said)
    broken += [f"{where}: {url} was lost" for url in due if url not in left]
    broken += [f"{where}: {url} left {n} times" for url, n in left.items() if n > 1]
    broken += [f"{where}: nobody planned {url}" for url in left if url not in due]
    broken += [f"{where}: {url} left and nobody knows" for url in left if url not in handed]
    ids = {each["delivery"] for each in said}
    if len(ids) != len(left):
        broken.append(f"{where}: {len(left)} touches under {len(ids)} ids")
    return Tally(0, len(said), broken)


def side_by_side(home, *, state, processes=4, rounds=3):
    """Let several processes hand over at once; tally the same, and that nobody waited."""
    tally = Tally()
    with Forks("faults.touch_worker") as forks:
        trial = Rooms(forks, home, state)
        for nth in range(rounds):
            room, began, due = trial.begin(f"{state}-beside-{nth}")
            pids = [trial.start(room, began, 0) for _ in range(processes)]
            codes = Counter(map(forks.wait, pids))
            tally.n += processes
            if not codes[0] or set(codes) - {0, BUSY}:
                tally.broken.append(f"{state}, round {nth}: they ended with {dict(codes)}")
            tally += _looked_at(trial, room, began, due, f"{state}, round {nth}")
    return tally
