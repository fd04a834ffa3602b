import json
import os
import sqlite3

import pytest

import pg
from stoker.cli.main import main
from stoker.cli.output import Exit


@pytest.fixture
def stoker(tmp_path, capsys):
    """Run a command in a directory of its own; return its exit code, stdout and stderr."""

    def stoker(*arguments):
        code = main(["-C", str(tmp_path), *arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    return stoker


@pytest.mark.parametrize("backend", ["sqlite", "json"])
@pytest.mark.parametrize("command", ["setup", "migrate"])
def test_a_store_is_made_once_and_the_second_time_is_nothing_to_do(stoker, backend, command):
    chosen = ("--set", f"storage.backend={backend}", "db")

    first = json.loads(stoker(*chosen, command, "--json")[1])
    code, out, _ = stoker(*chosen, command)
    status = json.loads(stoker(*chosen, "status", "--json")[1])

    assert first["done"]
    assert code == Exit.OK
    assert out.startswith("already current\n")
    assert status["ok"]
    assert status["schema_version"] == len(first["done"])


@pytest.mark.parametrize("backend", ["sqlite", "json"])
def test_a_new_store_is_its_owners_alone(stoker, tmp_path, backend):
    place = {"sqlite": "sqlite_path", "json": "json_dir"}[backend]
    chosen = ("--set", f"storage.backend={backend}", "--set", f"storage.{place}=made/store")
    before = os.umask(0)
    try:
        assert stoker(*chosen, "stop")[0] == Exit.OK
        assert stoker(*chosen, "heat", "sweep")[0] == Exit.OK
    finally:
        os.umask(before)

    made = [tmp_path / "made", *(tmp_path / "made").rglob("*")]
    assert len(made) > 1
    assert [path for path in made if path.stat().st_mode & 0o077] == []


@pytest.mark.parametrize("backend", ["sqlite", "json"])
def test_status_of_what_is_not_there_makes_nothing(stoker, tmp_path, backend):
    code, out, _ = stoker("--set", f"storage.backend={backend}", "db", "status")

    assert code == Exit.PROBLEMS
    assert "stoker db setup" in out
    assert list(tmp_path.iterdir()) == []


def test_a_memory_store_is_always_ready(stoker):
    code, out, _ = stoker("--set", "storage.backend=memory", "db", "status")

    assert code == Exit.OK
    assert "lost when the process ends" in out


@pytest.mark.parametrize("command", ["setup", "migrate", "status"])
def test_a_file_that_is_not_a_database_is_one_line_and_stays_as_it_was(stoker, tmp_path, command):
    file = tmp_path / "stoker.db"
    file.write_bytes(b"my notes\n" * 1000)
    code, out, err = stoker("db", command)

    assert code == Exit.CONFIG
    assert out == ""
    assert len(err.splitlines()) == 1
    assert "not a SQLite database" in err
    assert file.read_bytes() == b"my notes\n" * 1000


@pytest.mark.parametrize("command", ["setup", "migrate"])
def test_a_database_from_a_newer_stoker_is_refused_and_not_touched(stoker, tmp_path, command):
    assert stoker("db", "setup")[0] == Exit.OK
    file = tmp_path / "stoker.db"
    with sqlite3.connect(file) as database:
        database.execute("UPDATE meta SET value = '999' WHERE key = 'schema_version'")
    database.close()

    code, _, err = stoker("db", command)

    assert code == Exit.CONFIG
    assert "newer than this Stoker knows" in err
    assert len(err.splitlines()) == 1
    assert stoker("db", "status")[0] != Exit.OK


# The tests' server does not sync to disk, to be fast, and is rightly found out.
UNSAFE_ON_PURPOSE = ["durability"]


def wrong(checks):
    return [check["what"] for check in checks if not check["ok"]]


@pytest.fixture
def database(postgres):
    """The admin and app URLs of a database nobody has set up yet."""
    return pg.empty_database(postgres)


def test_postgres_is_set_up_by_an_administrator_and_then_healthy(stoker, database):
    admin, app = database
    chosen = ("--set", "storage.backend=postgres", "--set", f"storage.postgres_url={app}", "db")

    assert stoker(*chosen, "status")[0] != Exit.OK
    first = stoker(*chosen, "setup", "--admin-url", admin)
    again = stoker(*chosen, "setup", "--admin-url", admin)
    migrated = stoker(*chosen, "migrate", "--admin-url", admin)
    checks = json.loads(stoker(*chosen, "status", "--json")[1])["checks"]

    assert [first[0], again[0], migrated[0]] == [Exit.OK] * 3
    assert "already current" in migrated[1]
    assert {"store", "row security", "schema version"} <= {c["what"] for c in checks if c["ok"]}
    assert wrong(checks) == UNSAFE_ON_PURPOSE


def test_the_administrator_s_address_may_stand_in_the_settings(stoker, tmp_path, database):
    admin, app = database
    (tmp_path / ".env").write_text(
        f"STOKER_STORAGE_BACKEND=postgres\nSTOKER_STORAGE_POSTGRES_URL='{app}'\n"
        f"STOKER_STORAGE_POSTGRES_ADMIN_URL='{admin}'\n"
    )

    assert stoker("db", "setup")[0] == Exit.OK
    assert stoker("db", "migrate")[0] == Exit.OK
    assert wrong(json.loads(stoker("doctor", "--json")[1])["checks"]) == UNSAFE_ON_PURPOSE


def test_postgres_without_an_administrator_is_told_what_to_give(stoker):
    code, _, err = stoker(
        "--set",
        "storage.backend=postgres",
        "--set",
        "storage.postgres_url=postgresql://a:b@h/d",
        "db",
        "setup",
    )

    assert code == Exit.CONFIG
    assert "--admin-url" in err


@pytest.mark.parametrize("command", ["setup", "migrate"])
@pytest.mark.parametrize(
    "url", ["mysql://root:canary-9@h/d", "postgresql://root:canary-9@127.0.0.1:1/d"]
)
def test_an_administrator_s_password_is_never_repeated(stoker, url, command):
    code, out, err = stoker(
        "--set",
        "storage.backend=postgres",
        "--set",
        "storage.postgres_url=postgresql://app:canary-8@127.0.0.1:1/d",
        "db",
        command,
        "--admin-url",
        url,
    )

    assert code != Exit.OK
    assert "canary" not in out + err
    *warnings, error = err.splitlines()
    assert [line.split()[2] for line in warnings] == ["storage.postgres_url", "--admin-url"]
    assert "warning" not in error
