import json
from datetime import UTC, datetime, timedelta

import pytest

from stoker.accounts.contacts import MAX_VERIFIED
from stoker.backends.sqlite import SqliteBackend
from stoker.base.types import TenantId
from stoker.cli.doctor import run_checks
from stoker.cli.main import main
from stoker.cli.output import Exit, run_async
from stoker.pulls.settings import DEEP_UNITS
from stoker.scheduling.model import OccurrenceResult, OccurrenceState
from stoker.settings import FIELDS, Settings
from stoker.settings.commands import STARTER_CAPS, SUGGESTIONS, build_first_file
from stoker.settings.load import load_settings
from stoker.testing import FakeClock


@pytest.fixture
def stoker(tmp_path, capsys):
    """Run a command in a directory of its own; return its exit code, stdout and stderr."""

    def stoker(*arguments):
        code = main(["-C", str(tmp_path), *arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    return stoker


def settings_with(tmp_path, **flags):
    dotted = {key.replace("__", "."): value for key, value in flags.items()}
    return load_settings(file=None, env_file=None, environment={}, flags=dotted).with_directory(
        tmp_path
    )


def test_init_writes_a_file_that_reads_back_with_small_caps_and_suggestions_alone(stoker, tmp_path):
    code, out, _ = stoker("init")
    settings = load_settings(file=tmp_path / "stoker.toml", env_file=None, environment={}, flags={})

    given = {line.key for line in settings.list_shown() if line.origin != "default"}
    assert code == Exit.OK
    assert given == {*STARTER_CAPS, *SUGGESTIONS}
    assert all(settings.get_value(key) == small for key, small in STARTER_CAPS.items())
    assert settings.touches.min_rest.days == 5
    assert settings.touches.weekdays == (1, 2, 3, 4, 5)
    settings.touches.check()
    assert "stoker doctor" in out


def test_small_caps_are_smaller_than_the_defaults():
    defaults = load_settings(file=None, env_file=None, environment={}, flags={})

    assert all(0 < small < defaults.get_value(key) for key, small in STARTER_CAPS.items())


def test_the_first_file_speaks_of_every_setting_and_its_defaults_are_true(tmp_path):
    text = build_first_file()
    file = tmp_path / "stoker.toml"
    # Every commented default, switched on, must be the default.
    lines = [
        line.removeprefix("# ") if line.startswith("# ") and " = " in line else line
        for line in text.split("# One table per tenant")[0].splitlines()
    ]
    file.write_text("\n".join(lines))
    settings = load_settings(file=file, env_file=None, environment={}, flags={})
    defaults = load_settings(file=None, env_file=None, environment={}, flags={})

    for key, about in FIELDS.items():
        assert about.env[0] in text
        if key not in STARTER_CAPS and key not in SUGGESTIONS:
            assert settings.get_value(key) == defaults.get_value(key), key


def test_init_tells_programs_what_it_wrote(stoker, tmp_path):
    code, out, _ = stoker("init", "--json")

    assert (code, json.loads(out)) == (Exit.OK, {"wrote": str(tmp_path / "stoker.toml")})


def test_init_leaves_a_file_alone_unless_it_is_forced(stoker, tmp_path):
    file = tmp_path / "stoker.toml"
    file.write_text("[retention]\ndays = 1\n")

    code, _, err = stoker("init")
    assert code == Exit.CONFIG
    assert err == f"stoker: {file} is already there; --force replaces it\n"
    assert file.read_text() == "[retention]\ndays = 1\n"

    assert stoker("init", "--force")[0] == Exit.OK
    assert "small on purpose" in file.read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["stoker.toml"]


def test_init_where_nothing_can_be_written_is_one_clear_line(stoker, tmp_path):
    missing = tmp_path / "no" / "such" / "place.toml"
    code, _, err = stoker("--config", str(missing), "init")

    assert code == Exit.CONFIG
    assert err == f"stoker: {missing} cannot be written: No such file or directory\n"


def test_config_show_prints_every_setting_with_its_origin(stoker, tmp_path):
    (tmp_path / "stoker.toml").write_text("[retention]\ndays = 5\n[tenants.acme]\n")
    (tmp_path / ".env").write_text("OPENAI_API_KEY=sk-canary-1\n")
    code, out, _ = stoker("--set", "logging.level=debug", "config", "show", "--json")
    shown = json.loads(out)

    assert code == Exit.OK
    assert set(FIELDS) <= set(shown)
    assert shown["retention.days"] == {"value": "5", "origin": "stoker.toml:2"}
    assert shown["keys.openai"] == {"value": "[secret]", "origin": ".env:1"}
    assert shown["logging.level"] == {"value": "debug", "origin": "flag"}
    assert shown["tenants.acme.enabled"]["value"] == "true"

    _, table, _ = stoker("config", "show")
    assert "canary" not in table + out
    assert any(
        line.split() == ["retention.days", "5", "stoker.toml:2"] for line in table.split("\n")
    )


def test_doctor_looks_and_changes_nothing(stoker, tmp_path):
    code, out, _ = stoker("doctor", "--json")
    found = json.loads(out)

    assert code == Exit.OK
    assert found["ok"]
    assert list(tmp_path.iterdir()) == []
    what = {check["what"] for check in found["checks"]}
    assert {"settings", "keys.openai", "time zone", "clock", "schema version"} <= what
    assert "next run, default" in what
    assert found["caps"]["default"]["caps.tavily_queries"] == 1000


def test_doctor_tells_every_problem_of_the_settings_and_exits_with_1(stoker, tmp_path):
    (tmp_path / "stoker.toml").write_text('[retention]\ndays = -1\n[logging]\nlevel = "loud"\n')
    code, out, _ = stoker("doctor", "--json")

    assert code == Exit.PROBLEMS
    assert [check["ok"] for check in json.loads(out)["checks"]] == [False, False]


def test_doctor_warns_of_vendors_that_are_off_and_does_not_call_that_all_in_place(stoker):
    code, out, _ = stoker("doctor", "--json")
    levels = {check["what"]: check["level"] for check in json.loads(out)["checks"]}
    assert code == Exit.OK
    assert levels["settings"] == "ok"
    assert levels["keys.tavily"] == levels["connectors, default"] == "warning"

    shown = stoker("doctor")[1]
    assert "connectors list" in shown
    assert "All is in place" not in shown


def test_doctor_finds_a_store_that_is_none(stoker, tmp_path):
    (tmp_path / "stoker.db").write_bytes(b"these are my notes, not a database\n" * 100)
    code, out, _ = stoker("doctor")

    assert code == Exit.PROBLEMS
    assert "WRONG" in out
    assert "not a SQLite database" in out
    assert (tmp_path / "stoker.db").read_bytes().startswith(b"these are my notes")


def test_doctor_shows_each_tenant_s_own_caps_and_next_run(stoker, tmp_path):
    (tmp_path / "stoker.toml").write_text(
        '[tenants.acme]\ntimezone = "Europe/Paris"\n[tenants.acme.caps]\ntavily_queries = 3\n'
        "[tenants.bolt.scheduling]\nenabled = false\n[tenants.idle]\nenabled = false\n"
    )
    code, out, _ = stoker("doctor", "--json")
    found = json.loads(out)
    detail = {check["what"]: check["detail"] for check in found["checks"]}

    assert code == Exit.OK
    assert found["caps"]["acme"]["caps.tavily_queries"] == 3
    assert found["caps"]["bolt"]["caps.tavily_queries"] == 1000
    assert "idle" not in found["caps"]
    assert detail["next run, acme"].endswith("(01:00 in Europe/Paris)")
    assert "enabled is false" in detail["next run, bolt"]


def test_doctor_says_so_when_nobody_takes_part(tmp_path):
    settings = settings_with(tmp_path, scheduling__tenant_exclude="default")
    checks = run_async(run_checks(settings, clock=FakeClock()))

    assert [check.what for check in checks if not check.ok] == ["tenants"]


@pytest.mark.parametrize("year", [1970, 2025, 2100])
def test_doctor_notices_a_clock_that_cannot_be_right(tmp_path, year):
    clock = FakeClock(datetime(year, 6, 1, tzinfo=UTC))
    checks = run_async(run_checks(settings_with(tmp_path), clock=clock))

    assert [check.what for check in checks if not check.ok] == ["clock"]


def test_doctor_notices_a_clock_behind_what_is_already_recorded(tmp_path):
    clock = FakeClock()
    ahead = clock.now() + timedelta(hours=1)

    async def decided():
        backend = SqliteBackend(tmp_path / "stoker.db")
        await backend.migrate()
        slot = OccurrenceResult(
            schedule="x", due_at=ahead, state=OccurrenceState.MISSED, decided_at=ahead
        )
        await backend.tenant(TenantId("default")).schedule.record_result(slot, fence=None)
        await backend.close()

    run_async(decided())
    checks = run_async(run_checks(settings_with(tmp_path), clock=clock))

    assert [check.what for check in checks if not check.ok] == ["clock, default"]


def test_doctor_works_with_every_embedded_store(tmp_path):
    for backend in ("sqlite", "json", "memory"):
        settings = settings_with(tmp_path, storage__backend=backend)
        checks = run_async(run_checks(settings, clock=FakeClock()))
        assert all(check.ok for check in checks), backend


def test_settings_that_were_written_are_their_owners_alone_and_doctor_warns_of_others(
    stoker, tmp_path
):
    assert stoker("init")[0] == stoker("db", "setup")[0] == Exit.OK
    (tmp_path / ".env").touch(mode=0o600)

    def check():
        found = json.loads(stoker("doctor", "--json")[1])
        return next(each for each in found["checks"] if each["what"] == "private files")

    assert check()["level"] == "ok"
    for name in ("stoker.toml", ".env", "stoker.db"):
        (tmp_path / name).chmod(0o640)
        shown = check()
        assert (shown["level"], shown["ok"]) == ("warning", True)
        assert f"chmod go-rwx {tmp_path / name}" in shown["detail"]
        (tmp_path / name).chmod(0o600)


def test_the_first_file_can_be_printed(stoker, tmp_path):
    code, out, _ = stoker("--config", "-", "init")

    assert (code, out) == (Exit.OK, build_first_file())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("key", "value", "instead"),
    [
        ("keys.tavily", "canary-1", "TAVILY_API_KEY in .env"),
        ("tenants.acme.keys.tavily", "canary-1", "tenants.acme.keys.tavily in stoker"),
        ("storage.postgres_url", "postgresql://app:canary-1@h/d", "STOKER_STORAGE_POSTGRES_URL"),
        ("storage.postgres_url", "postgresql://app@h/d", None),
        ("keys.tavily", "", None),
        ("retention.days", "5", None),
    ],
)
def test_a_key_on_the_command_line_is_warned_about_once_with_the_safer_way(
    stoker, key, value, instead
):
    _, _, err = stoker("--set", f"{key}={value}", "doctor")

    assert "canary" not in err
    assert len(err.splitlines()) == (instead is not None)
    assert instead is None or f"set {instead}" in err


def read_levels(stoker):
    found = json.loads(stoker("doctor", "--json")[1])["checks"]
    return {check["what"]: (check["level"], check["detail"]) for check in found}


def test_a_warning_says_what_is_off_what_that_costs_and_the_next_command(stoker, tmp_path):
    (tmp_path / "stoker.toml").write_text(
        "[tenants.acme]\ncaps.lusha_credits = 0\nscheduling.enabled = false\n"
    )
    stoker("db", "setup")
    stoker("stop", "--tenant", "acme", "--reason", "look first")
    checks = read_levels(stoker)
    expected = {
        "keys.zerobounce": "email addresses stay unverified; set ZEROBOUNCE_API_KEY in .env",
        "connectors, acme": "no lead reaches a CRM: stoker crm connect --tenant acme",
        "stops, acme": "all spending is stopped (look first), so nothing is bought there: "
        "stoker resume --tenant acme",
        "accounts, acme": "no night selects anyone: stoker icp set --tenant acme",
        "caps, acme": "caps.lusha_credits: 0, so nothing is bought under it",
        "next run, acme": "so runs start by hand only: stoker nightly",
    }
    for what, words in expected.items():
        level, detail = checks[what]
        assert (level, words in detail) == ("warning", True), (what, detail)

    stoker("resume", "--tenant", "acme")
    stoker("icp", "set", "--tenant", "acme")
    checks = read_levels(stoker)
    assert checks["stops, acme"] == ("ok", "none in force")
    assert "stoker accounts import FILE.csv" in checks["accounts, acme"][1]
    (tmp_path / "list.csv").write_text("account_id\na-1\n")
    stoker("accounts", "import", "list.csv")
    assert read_levels(stoker)["accounts, acme"][0] == "ok"


def test_doctor_names_the_unit_of_every_cap(stoker):
    shown = stoker("doctor")[1]
    assert "Tavily calls a day, searches and pages read." in shown
    assert "Pull units a day, over all connectors." in shown


@pytest.mark.parametrize("tenth", [1, 10], ids=["defaults", "first file"])
def test_caps_are_for_the_same_number_of_companies(tenth):
    values = Settings().list_cap_values()
    values |= STARTER_CAPS if tenth == 10 else {}
    companies = values["scheduling.daily_cap_per_tenant"]
    assert companies == 1000 // tenth
    needs = {
        "caps.pull_units_per_day": DEEP_UNITS,
        "caps.tavily_queries": 1,
        "caps.tavily_credits": 1,
        "caps.openai_daily_tokens": 2_000,
        "caps.openai_calls": 1,
        "caps.lusha_contact_lookups": 0.55,
        "caps.zerobounce_verifications": MAX_VERIFIED,
        "caps.money_per_day_minor": 0.1,
    }
    assert all(values[key] >= need * companies for key, need in needs.items())
