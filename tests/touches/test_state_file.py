"""What is special about touches in files: they survive crashes, and damage is set aside."""

import asyncio
import json
import random
from dataclasses import replace
from datetime import timedelta
from hashlib import sha256
from pathlib import Path

import pytest

from contracts.touching import COUNTERS as OTHER_COUNTERS
from contracts.touching import MONDAY, NOW, WEEK, marked, plan, profile, url
from stoker.base.errors import ConfigError, TransientError
from stoker.base.jsontools import compact_json
from stoker.base.types import TenantId
from stoker.files.durable import Disk
from stoker.touches.model import PlanNote
from stoker.touches.queue import get_window_names
from stoker.touches.state_file import StateFile, get_records_path
from stoker.touches.store import TouchStore

ACME = TenantId("acme")
COUNTERS = list(get_window_names(NOW, zone="UTC").values())
DATA = Path(__file__).parents[1] / "data"


class Told:
    """A state file, and what it reported."""

    def __init__(self, path, **how):
        self.path, self.reports = path, []
        usual = {"tenant": ACME, "now": lambda: NOW, "report": self.reports.append}
        self.store = TouchStore(StateFile(path, **usual | how))

    def __getattr__(self, verb):
        return lambda *given, **named: asyncio.run(getattr(self.store, verb)(*given, **named))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state" / "schedule_state.json"


def filled(path):
    told = Told(path)
    told.save_profiles([profile(1), profile(2)])
    told.save_plan(plan((1, 2)), seen=0)
    told.record_outcome(WEEK, marked(1), counters=COUNTERS)
    return told


def test_the_file_beside_says_when_it_was_saved_and_has_plans_and_counters(path):
    filled(path)
    said = json.loads(get_records_path(path).read_bytes())
    assert said["saved_at"] == NOW.isoformat()
    assert said["counters"] == dict.fromkeys(COUNTERS, 1)
    assert set(said["plans"]) == {WEEK}


def test_another_process_finds_everything_as_it_was_left(path):
    first = filled(path)
    assert Told(path).find_plan(WEEK) == first.find_plan(WEEK)
    assert Told(path).list_profiles() == first.list_profiles()
    assert Told(path).list_outcomes(since=MONDAY) == [marked(1)]


def test_looking_makes_no_file(path):
    assert Told(path).find_plan(WEEK) is None
    assert not path.parent.exists()


COUNTED = json.dumps(COUNTERS[1]).encode()
DAMAGES = {
    "empty": lambda raw: b"",
    "half": lambda raw: raw[: len(raw) // 2],
    "noise": lambda raw: random.Random(7).randbytes(500),
    "a list": lambda raw: b"[]",
    "a word": lambda raw: b'"state"',
    "deep": lambda raw: b"[" * 100_000,
    "another count": lambda raw: raw.replace(COUNTED + b": 1", COUNTED + b": 0"),
    "no digest": lambda raw: raw.replace(b'"digest"', b'"dijest"'),
    "a word for a format": lambda raw: raw.replace(b'"format": 3', b'"format": "3"'),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_records_are_set_aside_whole_and_reported(path, damage):
    filled(path)
    path.unlink()
    records = get_records_path(path)
    broken = DAMAGES[damage](records.read_bytes())
    records.write_bytes(broken)

    told = Told(path)
    assert told.read_counters(COUNTERS) == dict.fromkeys(COUNTERS, 0)
    [report] = told.reports
    assert "damaged" in report
    assert records.with_name("schedule_state.stoker.json.damaged-1").read_bytes() == broken

    told.save_profiles([profile(3)])
    path.unlink()
    records.write_bytes(broken)
    again = Told(path)
    again.add_to_counters(COUNTERS, 2)
    assert len(again.reports) == 1
    assert records.with_name("schedule_state.stoker.json.damaged-2").read_bytes() == broken
    assert Told(path).read_counters(COUNTERS) == dict.fromkeys(COUNTERS, 2)


def test_of_damaged_records_the_file_that_scripts_know_still_has_counters_and_plan(path):
    filled(path)
    get_records_path(path).write_bytes(b"{")
    told = Told(path)
    assert told.read_counters(COUNTERS) == dict.fromkeys(COUNTERS, 1)
    assert [each.url for each in told.list_outcomes(since=MONDAY)] == [url(1)]
    assert told.find_plan(WEEK).plan.keys == plan((1, 2)).keys
    assert len(told.reports) == 1


@pytest.mark.parametrize("broken", [b"", b"{", b"[]", b'{"counters": {"daily_count": "many"}}'])
def test_a_damaged_file_of_scripts_is_set_aside_and_nothing_is_lost(path, broken):
    filled(path)
    path.write_bytes(broken)
    told = Told(path)
    assert told.read_counters(COUNTERS) == dict.fromkeys(COUNTERS, 1)
    told.add_to_counters(COUNTERS, 1)
    assert path.with_name("schedule_state.json.damaged-1").read_bytes() == broken
    assert len(told.reports) == 1
    assert json.loads(path.read_bytes())["counters"]["daily_count"] == 2


def test_any_single_byte_changed_is_noticed(path):
    filled(path)
    path.unlink()
    records = get_records_path(path)
    whole = records.read_bytes()
    chance = random.Random(11)
    for place in chance.sample(range(len(whole)), 60):
        other = (
            whole[:place] + bytes([whole[place] ^ 1 << chance.randrange(7)]) + whole[place + 1 :]
        )
        try:
            same = json.loads(other) == json.loads(whole)
        except ValueError:
            same = False
        if same:
            continue  # a blank for a blank
        records.write_bytes(other)
        told = Told(path)
        try:
            told.read_counters(COUNTERS)
        except ConfigError:
            continue  # its format or its tenant is another one
        assert told.reports, place


def test_a_file_whose_notes_have_no_days_yet_is_read_with_them(path):
    told = Told(path)
    notes = ("2026-02-10: 2 places stay empty", "the week has room for 35 touches")
    told.save_plan(plan((1,), notes=tuple(PlanNote(message=note) for note in notes)), seen=0)
    records = get_records_path(path)
    data = json.loads(records.read_bytes())
    del data["digest"], data["plans"][WEEK]["plan"]["note_days"]
    data["digest"] = sha256(compact_json(data).encode()).hexdigest()
    records.write_text(json.dumps(data))
    read = told.find_plan(WEEK).plan.notes
    assert [(note.message, note.day) for note in read] == [
        (notes[0], MONDAY + timedelta(days=1)),
        (notes[1], None),
    ]
    assert told.reports == []


def test_a_file_of_an_older_make_is_set_aside_and_not_written_over(path):
    path.parent.mkdir()
    old = json.dumps(
        {"counters": {"daily": 3}, "find_plan": None, "saved_at": "2025-12-01"}
    ).encode()
    path.write_bytes(old)
    told = Told(path)
    told.save_profiles([profile(1)])
    [report] = told.reports
    assert "older" in report
    assert path.with_name("schedule_state.json.older-1").read_bytes() == old
    assert told.list_profiles() == [profile(1)]


@pytest.mark.parametrize("change", [{"format": 4}, {"tenant": "umbrella"}])
def test_a_newer_file_or_another_tenants_is_refused_and_left_alone(path, change):
    filled(path)
    records = get_records_path(path)
    if "tenant" in change:
        told = Told(path, tenant=TenantId("umbrella"))
    else:
        said = json.loads(records.read_bytes()) | change
        records.write_bytes(json.dumps(said).encode())
        told = Told(path)
    before = records.read_bytes(), path.read_bytes()
    with pytest.raises(ConfigError):
        told.add_to_counters(COUNTERS, 1)
    assert (records.read_bytes(), path.read_bytes()) == before
    assert not told.reports


class FullDisk(Disk):
    """A disk that has no room from the nth replacement of records on."""

    def __init__(self, left):
        super().__init__()
        self.left = left

    def replace(self, path, data):
        self.left -= ".stoker." in path.name
        if self.left < 0:
            raise TransientError("the disk is full")
        super().replace(path, data)


STEPS = (
    lambda told: told.save_profiles([profile(1), profile(2)]),
    lambda told: told.save_plan(plan((1, 2)), seen=0),
    lambda told: told.record_outcome(WEEK, marked(1), counters=COUNTERS),
    lambda told: told.add_to_counters(COUNTERS, 3),
    lambda told: told.record_outcome(WEEK, marked(2), counters=COUNTERS),
)


@pytest.mark.parametrize("writes", range(len(STEPS)))
def test_whatever_write_fails_all_before_it_are_kept(path, writes):
    told = Told(path, disk=FullDisk(writes))
    for step in STEPS[:writes]:
        step(told)
    before = path.read_bytes() if path.exists() else None
    with pytest.raises(TransientError):
        STEPS[writes](told)
    assert (path.read_bytes() if path.exists() else None) == before
    after = Told(path)
    for step in STEPS[writes:]:
        step(after)
    assert after.read_counters(COUNTERS) == dict.fromkeys(COUNTERS, 5)
    assert {each.url for each in after.list_profiles() if each.last_done_at} == {url(1), url(2)}


def test_many_processes_lose_no_count(path):
    async def whole():
        stores = [Told(path).store for _ in range(4)]
        await asyncio.gather(
            *(each.add_to_counters(COUNTERS, 1) for each in stores for _ in range(5))
        )

    asyncio.run(whole())
    assert Told(path).read_counters(COUNTERS) == dict.fromkeys(COUNTERS, 20)


class NoViewDisk(Disk):
    """A disk on which only our own records can be written."""

    def replace(self, path, data):
        if ".stoker." not in path.name:
            raise TransientError("the disk is full")
        super().replace(path, data)


def test_a_crash_between_the_two_files_loses_and_doubles_nothing(path):
    filled(path)
    before = path.read_bytes()
    told = Told(path, disk=NoViewDisk())
    told.add_to_counters(COUNTERS, 4)
    assert "is not up to date: the disk is full" in told.reports[0]
    assert path.read_bytes() == before
    after = Told(path)
    assert after.read_counters(COUNTERS) == dict.fromkeys(COUNTERS, 5)
    after.add_to_counters(COUNTERS, 1)
    assert json.loads(path.read_bytes())["counters"]["weekly_count"] == 6
    assert after.reports == []


def test_records_in_one_file_of_the_version_before_are_read_and_split(path):
    path.parent.mkdir()
    path.write_bytes((DATA / "schedule_state_format_2.json").read_bytes())
    told = Told(path)
    assert told.read_counters(OTHER_COUNTERS) == dict.fromkeys(OTHER_COUNTERS, 1)
    known = filled(path.with_name("other.json")).list_profiles()
    assert told.list_profiles() == [replace(each, person="", channel="") for each in known]
    told.add_to_counters(OTHER_COUNTERS, 1)
    assert set(json.loads(path.read_bytes())) == {"counters", "plan"}
    assert Told(path).read_counters(OTHER_COUNTERS) == dict.fromkeys(OTHER_COUNTERS, 2)
    assert Told(path).find_plan(WEEK).plan.keys == plan((1, 2)).keys
    assert told.reports == []
