"""`stoker touches`, asked the way a person does."""

import asyncio
import csv
import io
import json
import re
from dataclasses import replace
from datetime import timedelta

import pytest

from kit.touch_desk import add_lead
from running_box import RunningBox
from stoker.app import open_app, read_settings, system_clock
from stoker.base.types import TenantId
from stoker.cli.main import main

DEFAULT = TenantId("default")
TABLE = "url,name,last_done_at,status\n" + "".join(
    f"https://people.test/{n},Person {n},,\n" for n in range(30)
)


def noon_zone():
    """A zone in which it is about noon now, so that no test runs across a midnight."""
    west = (system_clock().now().hour - 12) % 24
    return f"Etc/GMT{west - 24 if west > 12 else west:+d}" if west % 24 else "UTC"


@pytest.fixture
def home(tmp_path):
    (tmp_path / "people.csv").write_text(TABLE)
    return tmp_path


@pytest.fixture
def stoker(home, capsys):
    def asking(*words, zone=None):
        rules = ["--set", f"scheduling.timezone={zone or noon_zone()}"]
        code = main(["-C", str(home), *rules, *words])
        said = capsys.readouterr()
        assert "Traceback" not in said.err
        return code, said.out, said.err

    return asking


@pytest.fixture
def told(stoker):
    """Ask for JSON; return it."""

    def asking(*words, code=0):
        got, out, err = stoker(*words, "--json")
        assert got == code, err
        return json.loads(out)

    return asking


def with_store(home, work):
    async def opening():
        own = read_settings(directory=home, config=None, flags={}, environment={})
        async with open_app(own) as app:
            return await work(app.backend.tenant(DEFAULT))

    return asyncio.run(opening())


def all_due(home):
    """Let the times of today's touches have come."""

    async def earlier(store):
        now = system_clock().now()
        week = noon_week()
        kept = await store.touches.find_plan(week)
        days = tuple(
            replace(
                slot,
                touches=tuple(
                    replace(each, at=now - timedelta(seconds=60 + n), handed_at=now)
                    if each.handed_at
                    else each
                    for n, each in enumerate(slot.touches)
                ),
            )
            for slot in kept.plan.days
        )
        assert await store.touches.save_plan(replace(kept.plan, days=days), seen=kept.revision)

    return with_store(home, earlier)


def noon_week():
    from stoker.touches.queue import format_week, get_local_day

    return format_week(get_local_day(system_clock().now(), noon_zone()))


def test_profiles_are_imported_once_and_bad_rows_are_told(stoker, told, home):
    assert told("touches", "import", "people.csv")["new"] == 30
    assert told("touches", "import", "people.csv")["same"] == 30
    (home / "bad.csv").write_text("url,name\nnope,X\nhttps://people.test/new,Y\n")
    code, out, _ = stoker("touches", "import", "bad.csv")
    assert code == 1
    assert "1 profile new" in out
    assert "line 2" in out
    assert told("touches", "import", "bad.csv", code=1)["bad"][0]["where"] == "line 2"


@pytest.mark.parametrize("words", [(), ("people.csv", "--leads"), ("nowhere.csv",)])
def test_what_cannot_be_imported_is_a_clear_error(stoker, words):
    code, _, err = stoker("touches", "import", *words)
    assert code == 2
    assert err.startswith("stoker: ")


def test_leads_can_be_imported(told, home):
    told("touches", "status")
    with_store(home, lambda store: add_lead(store, 1, 0.9, now=system_clock().now()))
    assert told("touches", "import", "--leads")["new"] == 1


def test_a_day_from_import_to_outcome(told, stoker):
    told("touches", "import", "people.csv")
    plan = told("touches", "plan", "--seed", "7")
    assert plan["seed"] == 7
    assert plan["added"] > 0
    assert plan["total"] <= 80
    queue = told("touches", "today")
    assert queue["limits"] == "ok"
    first = queue["touches"][0]
    assert told("touches", "mark", first["url"], "done")["changed"] is True
    assert told("touches", "mark", first["url"], "done")["changed"] is False
    status = told("touches", "status")
    assert status["has_plan"] is True
    assert status["counters"]["day"] == {"used": 1, "limit": 20}
    left = told("touches", "today")["touches"]
    assert [each["url"] for each in left] == [each["url"] for each in queue["touches"][1:]]
    shown = told("touches", "show")
    done = [t for day in shown["days"] for t in day["touches"] if t["status"] == "done"]
    assert [each["url"] for each in done] == [first["url"]]
    for words in (("plan",), ("today",), ("status",), ("show",)):
        code, out, _ = stoker("touches", *words)
        assert (code, bool(out)) == (0, True)


def test_a_week_is_shown_as_a_calendar_and_as_csv(stoker, told):
    assert stoker("touches", "show")[0] == 2
    told("touches", "plan", "--profiles", "people.csv")
    week = told("touches", "show")
    number = sum(len(day["touches"]) for day in week["days"])
    _, ics, _ = stoker("touches", "show", "--ics")
    assert ics.count("BEGIN:VEVENT") == number > 0
    assert ics.startswith("BEGIN:VCALENDAR\r\n")
    _, rows, _ = stoker("touches", "show", "--csv")
    assert len(list(csv.DictReader(io.StringIO(rows)))) == number
    assert stoker("touches", "show", "--csv", "--json")[0] == 2


def test_a_dry_plan_keeps_nothing(told, stoker):
    told("touches", "import", "people.csv")
    assert told("touches", "plan", "--dry-run")["added"] > 0
    assert told("touches", "status")["has_plan"] is False
    assert stoker("touches", "plan", "--dry-run", "--profiles", "people.csv")[0] == 2


@pytest.mark.parametrize(
    "words",
    [
        ("mark", "https://people.test/nobody", "done"),
        ("mark", "https://people.test/1", "finished"),
        ("plan", "--week", "2025-W53"),
    ],
)
def test_what_is_unknown_is_a_clear_error(stoker, told, words):
    told("touches", "plan", "--profiles", "people.csv")
    before = told("touches", "show")
    code, _, err = stoker("touches", *words)
    assert code == 4
    assert err.count("\n") == 1
    assert told("touches", "show") == before


def test_due_touches_leave_for_a_file_once(told, stoker, home):
    (home / "stoker.toml").write_text("touches.hourly_cap = 100\n")
    told("touches", "plan", "--profiles", "people.csv")
    told("touches", "today")
    all_due(home)
    due = told("touches", "run", "--dry-run", "--limit", "2")
    assert len(due["left"]) == 2
    assert not (home / "touches.jsonl").exists()
    assert told("touches", "run", "--limit", "2")["left"] == due["left"]
    lines = (home / "touches.jsonl").read_text().splitlines()
    assert [json.loads(line)["url"] for line in lines] == due["left"]
    code, out, _ = stoker("touches", "run")
    assert code == 0
    assert "touches delivered by file" in out
    lines = (home / "touches.jsonl").read_text().splitlines()
    assert len({json.loads(line)["delivery"] for line in lines}) == len(lines) > 2


def test_due_touches_leave_for_odoo_as_activities(home, told, stoker):
    told("touches", "plan", "--profiles", "people.csv")
    told("touches", "today")
    all_due(home)
    with RunningBox(companies=1) as box:
        (home / "stoker.toml").write_text(
            f'sandbox.address = "{box.box.address}"\ntouches.way = "odoo"\n'
            'storage.sqlite_path = "stoker.db"\n'
        )
        assert len(told("touches", "run", "--limit", "2")["left"]) == 2
        assert told("touches", "run", "--limit", "0")["left"] == []


@pytest.mark.parametrize(
    ("said", "missing"), [("", "webhook_url"), ('webhook_url = "https://h.test/x"', "keys.webhook")]
)
def test_a_webhook_that_is_not_set_up_says_what_is_missing(home, stoker, said, missing):
    (home / "stoker.toml").write_text(f'[touches]\nway = "webhook"\n{said}\n')
    code, _, err = stoker("touches", "run")
    assert code == 2
    assert missing in err


def test_everything_can_be_in_one_file_and_a_damaged_one_is_told(home, told, stoker):
    (home / "stoker.toml").write_text('touches.state = "file"\n')
    told("touches", "plan", "--profiles", "people.csv")
    first = told("touches", "today")["touches"][0]
    told("touches", "mark", first["url"], "done")
    state = home / "schedule_state.json"
    assert json.loads(state.read_text())["counters"]
    assert not (home / "stoker.db").exists()
    assert told("touches", "run")["left"] == []
    state.write_text("{")
    code, _, err = stoker("touches", "today")
    assert code == 0
    assert "damaged" in err
    assert (home / "schedule_state.json.damaged-1").read_text() == "{"


def test_what_can_be_promised_is_a_probability(told, stoker):
    told("touches", "import", "people.csv")
    certificate = told("touches", "certify", "--runs", "3")
    assert certificate["feasible"] is True
    assert 0 <= certificate["one_waits"]["low"] <= certificate["one_waits"]["high"] <= 1
    code, out, _ = stoker(
        "--set",
        "touches.weekly_target=7",
        "--set",
        "touches.daily_min=0",
        "touches",
        "certify",
        "--runs",
        "1",
    )
    assert code == 1
    assert out.startswith("Feasible: no")
    assert "guarantee" not in out


def test_a_tenant_that_only_the_store_knows_has_touches_too(stoker, told):
    assert stoker("tenant", "add", "bolt")[0] == 0
    assert told("touches", "import", "people.csv", "--tenant", "bolt")["new"] == 30
    assert told("touches", "status", "--tenant", "bolt")["tenant"] == "bolt"
    assert stoker("touches", "status", "--tenant", "nobody")[0] == 2


def test_a_printed_plan_says_how_many_touches_are_planned_beside_the_budget(told, stoker):
    plan = told("touches", "plan", "--profiles", "people.csv")
    planned = sum(len(slot["touches"]) for slot in plan["days"])
    _, out, _ = stoker("touches", "show")
    numbers = [int(word) for word in re.findall(r"[0-9]+", out.splitlines()[0])]
    assert planned < plan["total"]
    assert planned in numbers
    assert plan["total"] in numbers


def test_a_weekly_planners_file_is_imported_with_its_dates_and_its_columns_are_named(
    home, stoker, told
):
    (home / "state.csv").write_text(
        "linkedin_url,name,last_engaged_date,status,notes\n"
        "https://www.linkedin.com/in/ann,Ann Lee,2026-02-01,active,x\n"
        "https://www.linkedin.com/in/bob,Bob Tan,,paused,y\n"
    )
    code, out, _ = stoker("touches", "import", "state.csv")
    assert code == 0
    assert " ".join(out.split()) == (
        "2 profiles new, 0 changed, 0 unchanged Columns used: linkedin_url (as url), name (as name "
        "and person), last_engaged_date (as last_done_at), status. Not used: notes."
    )
    assert told("touches", "import", "state.csv")["columns_not_used"] == ["notes"]
    told("touches", "plan")
    week = told("touches", "show")
    touches = [touch for day in week["days"] for touch in day["touches"]]
    assert {(each["person"], each["channel"]) for each in touches} == {("Ann Lee", "linkedin")}
    assert all(each["days_since"] is not None for each in touches)
    _, shown, _ = stoker("touches", "show")
    assert "Ann Lee" in shown
    assert "linkedin" in shown


def test_a_list_without_a_status_wakes_up_no_paused_profile(home, told):
    (home / "one.csv").write_text("url,status\np.test/a,paused\n")
    (home / "two.csv").write_text("url,name\np.test/a,Ann\n")
    told("touches", "import", "one.csv")
    assert told("touches", "import", "two.csv")["changed"] == 1
    profiles = with_store(home, lambda store: store.touches.list_profiles())
    assert [(each.name, each.status) for each in profiles] == [("Ann", "paused")]


def test_the_list_of_the_settings_is_read_again_at_planning_and_may_be_away(home, stoker, told):
    (home / "stoker.toml").write_text('touches.profiles = "sheet.csv"\n')
    (home / "sheet.csv").write_text("url,name\np.test/a,Ann\nnope,X\n")

    def planned(week):
        return {touch["url"] for day in week["days"] for touch in day["touches"]}

    assert planned(told("touches", "plan")) == {"https://p.test/a"}
    (home / "sheet.csv").write_text("url,name\np.test/a,Ann\np.test/b,Bob\n")
    assert planned(told("touches", "plan", "--dry-run")) == {"https://p.test/a", "https://p.test/b"}
    assert planned(told("touches", "show")) == {"https://p.test/a"}
    assert planned(told("touches", "plan")) == {"https://p.test/a", "https://p.test/b"}
    (home / "sheet.csv").unlink()
    code, out, err = stoker("touches", "plan", "--json")
    assert (code, planned(json.loads(out))) == (0, {"https://p.test/a", "https://p.test/b"})
    assert "touches.profiles was not read" in err
