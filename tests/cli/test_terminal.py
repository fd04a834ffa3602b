"""Every command on a terminal, over a store in which every text is hostile."""

import gzip
import json
import re
import shlex
import sqlite3
import sys
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path

import click
import pytest

from kit.terminals import terminal
from running_box import RunningBox
from stoker.cli.main import main, stoker
from stoker.sandbox.http import to_page_response
from stoker.testing import FakeClock

SAMPLE = Path(__file__).parents[1] / "samples" / "store_v10.db.gz"
HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e\u2066\u200fx\x08"
UNSEEN = re.compile("[\x00-\x09\x0b\x0c\x0e-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]")
NOW = datetime(2026, 11, 18, 4, tzinfo=UTC)


COMPANY = "200700004G"
SETTINGS = """
tenancy.default_tenant_id = "acme"
[discovery]
sources = ["file:jobs.csv"]
[odoo]
url = "https://odoo.example"
database = "acme"
[keys]
odoo = "key"
tavily = "key"
openai = "key"
"""
SEEN = {  # commands that show something hostile, escaped
    "tenants list",
    "tenants show",
    "registry show",
    "sources test",
    "touches show",
    "touches today",
    "leads export",
    "leads list",
    "leads website",
    "why",
    "caps list",
    "ledger list",
    "stop",
    "runs list",
}
NAMES = {"name", "title", "because", "reason", "rationale", "note", "company", "location"}
OUR_WORDS = {
    "window_name",
    "last_modified",
    "amounts",
    "actual",
    "charges",
    "cost",
    "seconds",
    ("touch_counters", "name"),
    ("posting_sources", "name"),
    ("icp_rules", "name"),
    ("crm_sent_rows", "company"),
    ("vendor_answers", "answer"),
}

# Every command, with the words it is given; without any it is not walked, and why is said.
WALK = {
    "init": None,  # prints paths alone
    "doctor": ["", "--json"],
    "demo": None,  # the other commands, over a store of its own
    "tenants add": ["extra --name 'two words{hostile}'"],
    "tenants disable": ["extra"],
    "tenants enable": ["extra"],
    "tenants list": ["", "--json"],
    "tenants show": ["acme", "--json acme"],
    "tenants users add": ["mei --name 'two words{hostile}'"],
    "tenants users list": ["", "--json"],
    "tenants users remove": ["mei"],
    "icp set": ["--industry J"],
    "icp show": ["", "--json"],
    "accounts import": ["accounts.csv"],
    "accounts list": ["", "--json"],
    "accounts show": [COMPANY, f"--json {COMPANY}"],
    "crm connect": None,  # asks the CRM first
    "crm disconnect": None,
    "crm show": ["", "--json"],
    "crm undo": None,
    "connectors list": ["", "--json"],
    "connectors test": None,  # asks vendors
    "registry import": ["hostile.csv --release 2026-11-01 --part H"],
    "registry industries import": None,  # refuses what is not a list of codes
    "registry industries show": ["62011"],
    "registry rejects": ["", "--json"],
    "registry show": [COMPANY, f"{COMPANY} --json"],
    "registry ssic import": None,
    "registry ssic show": ["62011"],
    "registry status": ["", "--json"],
    "config show": ["", "--json"],
    "db maintain": [""],
    "db migrate": [""],
    "db setup": [""],
    "db status": ["", "--json"],
    "nightly": ["--dry-run", "--plan"],
    "pulls plan": ["--dry-run"],
    "pulls price": None,  # numbers alone
    "pulls quote": ["", "--json"],
    "pulls replay": ["latest"],
    "pulls run": None,  # asks vendors
    "discover": ["", "--enrich"],
    "sources list": ["", "--json"],
    "sources test": ["file:jobs.csv", "--json file:jobs.csv"],
    "crawl": None,  # by the test of what a site says
    "touches certify": ["--runs 1"],
    "touches import": ["people.csv", "--leads"],
    "touches mark": ["https://people.test/1 done"],
    "touches plan": ["", "--json"],
    "touches run": ["", "--json"],
    "touches show": ["", "--json", "--csv", "--ics"],
    "touches status": [""],
    "touches today": ["", "--json"],
    "leads export": ["--format csv", "--format json"],
    "leads list": ["", "--csv", "--json"],
    "leads website": [f"{COMPANY} given.test", f"--json {COMPANY} given.test"],
    "why": [COMPANY, f"--flip {COMPANY}", f"--json {COMPANY}"],
    "contacts erase": ["somebody@{hostile}.test --dry-run --without-crm"],
    "heat history": [COMPANY, f"--json {COMPANY}"],
    "heat show": [COMPANY, f"--json {COMPANY}"],
    "heat sweep": [""],
    "heat top": ["", "--json"],
    "signals import": ["signals.csv"],
    "caps list": ["", "--json"],
    "caps raise": None,  # numbers alone
    "caps set": None,
    "holds list": ["", "--json"],
    "holds release": ["nothing --reason '{hostile}'"],
    "holds settle": None,
    "ledger export": ["--format csv", "--format json"],
    "ledger list": ["", "--json"],
    "ledger show": ["1", "--json 1", "58"],
    "ledger verify": [""],
    "stop": ["--connector tavily --reason 'because{hostile}'"],
    "resume": ["--connector tavily"],
    "schedule accept-clock": None,  # asks first
    "schedule audit": ["", "--json"],
    "schedule next": [""],
    "schedule run": None,  # the jobs of other commands
    "runs cancel": ["latest"],
    "runs compare": ["latest latest"],
    "runs list": ["", "--json"],
    "runs prune": ["--dry-run"],
    "runs rerun": None,
    "runs show": ["latest", "--json latest"],
    "sandbox serve": None,  # serves
    "simulate coverage": None,  # numbers alone
    "simulate nights": None,
    "simulate pulls": None,
    "simulate scores": None,
    "simulate timing": None,
}


def commands(group=stoker, path=()):
    """Yield the words of every command there is."""
    if not isinstance(group, click.Group):
        yield " ".join(path)
        return
    ctx = click.Context(group)
    for name in group.list_commands(ctx):
        yield from commands(group.get_command(ctx, name), (*path, name))


def poisoned(value):
    """Return a stored value with something hostile behind every text in it that has words."""
    if isinstance(value, dict):
        return {key: poisoned(each) for key, each in value.items()}
    if isinstance(value, list):
        return [poisoned(each) for each in value]
    return value + HOSTILE if isinstance(value, str) and " " in value else value


def poison(path):
    """Make every text with words in a store hostile; return the columns that are."""
    changed = set()
    with closing(sqlite3.connect(path)) as store:
        tables = store.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        columns = [
            (table, about[1])
            for (table,) in tables
            for about in store.execute(f"PRAGMA table_info({table})").fetchall()
        ]
        for table, column in columns:
            if column in OUR_WORDS or (table, column) in OUR_WORDS:
                continue
            for (value,) in store.execute(f"SELECT DISTINCT {column} FROM {table}").fetchall():
                if not isinstance(value, str):
                    continue
                new = value + HOSTILE if column in NAMES else poison_text(value)
                if new != value:
                    update = f"UPDATE {table} SET {column} = ? WHERE {column} = ?"
                    with suppress(sqlite3.DatabaseError):  # what is one of a few words stays
                        store.execute(update, (new, value))
                        changed.add((table, column))
        store.commit()
    return changed


def poison_text(text):
    try:
        inside = json.loads(text)
    except ValueError:
        return poisoned(text)
    return json.dumps(poisoned(inside)) if isinstance(inside, dict | list) else text


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A store in which every text is hostile, and hostile files beside it."""
    place = tmp_path_factory.mktemp("hostile")
    (place / "stoker.db").write_bytes(gzip.decompress(SAMPLE.read_bytes()))
    (place / "stoker.toml").write_text(SETTINGS)
    (place / "jobs.csv").write_text(
        f"title,url,company\nCook{HOSTILE},https://a.test/1,A{HOSTILE}\n{HOSTILE},nowhere,\n"
    )
    people = "".join(f"https://people.test/{n},P {n}{HOSTILE},\n" for n in range(9))
    (place / "people.csv").write_text(f"url,name,status\n{people}{HOSTILE},,{HOSTILE}\n")
    (place / "signals.csv").write_text(f"account,kind,at\n{HOSTILE},{HOSTILE},{HOSTILE}\n")
    (place / "accounts.csv").write_text(
        f"account_id,name,domain,posture\n{HOSTILE},{HOSTILE},{HOSTILE},1\n"
    )
    (place / "hostile.csv").write_text(f"uen,{HOSTILE}\n{HOSTILE},1\n")
    reason = ("--tenant", "acme", "--reason", f"look first{HOSTILE}")
    for words in (["db", "setup"], ["stop", *reason], ["touches", "import", "people.csv"]):
        main(["-C", str(place), *words], clock=FakeClock(NOW))
    assert len(poison(place / "stoker.db")) > 30
    return place


def show(home, *words):
    """Run a command with both its outputs on terminals; return what these showed."""
    with terminal() as out, terminal(errors=True) as err:
        code = main(["-C", str(home), *words], clock=FakeClock(NOW))
        sys.stdout.flush()
        sys.stderr.flush()
    return code, out.raw, err.raw


def test_every_command_takes_json():
    for path in commands():
        command = stoker
        for word in path.split():
            command = command.get_command(None, word)
        assert any("--json" in each.opts for each in command.params), path


def test_every_command_is_walked_or_not_for_a_reason():
    assert [*commands()] == [*WALK]


def test_no_command_lets_text_from_outside_at_a_terminal(home):
    escaping, wrong = set(), []
    for command, variants in WALK.items():
        for words in variants or []:
            given = [word.format(hostile=HOSTILE) for word in shlex.split(words)]
            _, out, err = show(home, *command.split(), *given)
            wrong += [(command, words, found) for found in UNSEEN.findall(out + err)]
            escaping |= {command} if r"\u{1b}" in out else set()
    assert wrong == []
    assert escaping >= SEEN


def test_no_command_repeats_hostile_words_at_a_terminal(home):
    for command in WALK:
        for words in ([HOSTILE], [f"--{HOSTILE}"], ["--tenant", HOSTILE, HOSTILE]):
            _, out, err = show(home, *command.split(), *words)
            assert UNSEEN.findall(out + err) == [], command


def test_what_a_site_says_does_not_get_at_a_terminal(home):
    page = (
        f"<title>Acme{HOSTILE}</title><h1>Acme{HOSTILE}</h1><p>Call Ann{HOSTILE} Tan, Director, "
        f"+65 6123 4567, ann{HOSTILE}@evil.test</p><a href='/about{HOSTILE}'>About{HOSTILE}</a>"
    )
    with RunningBox(vendors={"evil.test": lambda *_: lambda _: to_page_response(page)}) as box:
        for words in ([], ["--json"]):
            at = ("--sandbox", box.box.address)
            code, out, err = show(home, "crawl", "http://evil.test/", *at, *words)
            assert (code, UNSEEN.findall(out + err)) == (0, [])
            assert "Acme" in out


@pytest.mark.parametrize("kind", ["--csv", "--ics"])
def test_a_file_or_pipe_gets_every_character_of_a_plan(home, capfdbinary, kind):
    assert main(["-C", str(home), "touches", "show", kind], clock=FakeClock(NOW)) == 0
    written = capfdbinary.readouterr().out
    assert "\u202e".encode() in written
    assert b"\r\n" in written
    assert (b"\x1b[2J" in written) is (kind == "--csv")  # a calendar has no control characters
