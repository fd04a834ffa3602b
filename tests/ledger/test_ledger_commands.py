import asyncio
import csv
import io
import json
import sqlite3
from datetime import UTC, datetime, timedelta

import pytest

from stoker.app import open_app, read_settings
from stoker.base.types import TenantId
from stoker.budgets.charges import SpendRequest
from stoker.budgets.service import build_reset_rule, list_caps
from stoker.cli.main import main
from stoker.ledger.chain import NewEntry

ACME, BOLT = TenantId("acme"), TenantId("bolt")
TENANTS = "[tenants.acme]\n[tenants.bolt]\ncaps.tavily_queries = 3\n"
RUN = "20260207_013000"
LONG_AGO = datetime(2026, 2, 7, 1, 30, tzinfo=UTC)


async def write_history(app):
    """What a morning leaves behind: decisions long ago, promises, a refusal, a stop."""
    acme, bolt = app.backend.tenant(ACME), app.backend.tenant(BOLT)
    for number, account in enumerate(("one", "two", "three")):
        code = "FRESH_ENOUGH" if account == "two" else "DUE"
        note = NewEntry(
            at=LONG_AGO + timedelta(minutes=number),
            kind="NOT_CHOSEN" if account == "two" else "CHOSEN",
            subject=account,
            reason=f"{account} was looked at",
            data={"account": account, "code": code, "numbers": {"heat": 0.5}},
        )
        await acme.ledger.append([note])
    now = app.clock.now()
    for key, account, calls in (("k1", "one", 1), ("k2", "three", 2), ("k3", "one", 2)):
        await bolt.budgets.reserve(
            SpendRequest(
                key=key, connector="tavily", amounts={"calls": calls}, run=RUN, account=account
            ),
            caps=await list_caps(app.for_tenant(BOLT)),
            reset=build_reset_rule(app.settings.for_tenant(BOLT)),
            owner="w",
            until=now + timedelta(hours=1),
            now=now,
        )
    await bolt.budgets.settle("k1", {"calls": 1}, now=now)
    await bolt.budgets.stop("lusha", reason="too dear", now=now)


@pytest.fixture
def ask(tmp_path):
    """Do something with the opened store."""
    (tmp_path / "stoker.toml").write_text(TENANTS)

    async def opening(work):
        own = read_settings(directory=tmp_path, config=None, flags={}, environment={})
        async with open_app(own) as app:
            return await work(app)

    return lambda work: asyncio.run(opening(work))


@pytest.fixture
def stoker(tmp_path, capsys, ask):
    """A store with a short history, and a way to ask about it."""
    ask(write_history)
    capsys.readouterr()  # what making the store said is nobody's answer

    def asking(*words):
        code = main(["-C", str(tmp_path), *words])
        said = capsys.readouterr()
        return code, said.out, said.err

    return asking


def listed(stoker, *words):
    code, out, err = stoker("ledger", "list", "--json", *words)
    assert code == 0, err
    return [(entry["tenant"], entry["seq"]) for entry in json.loads(out)]


def altered(tmp_path, statement):
    """Change the file behind Stoker's back, past whatever would have refused it."""
    with sqlite3.connect(tmp_path / "stoker.db") as naive:
        guards = naive.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for (name,) in guards:
            naive.execute(f"DROP TRIGGER {name}")
        assert naive.execute(statement).rowcount > 0
    naive.close()


def test_entries_are_listed_newest_first(stoker):
    assert listed(stoker) == [
        *[("bolt", seq) for seq in (5, 4, 3, 2, 1)],
        *[("acme", seq) for seq in (3, 2, 1)],
    ]


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["--tenant", "acme"], ["acme 3", "acme 2", "acme 1"]),
        (["--kind", "CHOSEN"], ["acme 3", "acme 1"]),
        (["--kind", "settled"], ["bolt 4"]),
        (["--reason", "FRESH_ENOUGH"], ["acme 2"]),
        (["--reason", "cap_connector_day"], ["bolt 3"]),
        (["--reason", "Too Dear"], ["bolt 5"]),
        (["--account", "one"], ["bolt 4", "bolt 3", "bolt 1", "acme 1"]),
        (["--connector", "tavily"], ["bolt 4", "bolt 3", "bolt 2", "bolt 1"]),
        (["--connector", "lusha"], ["bolt 5"]),
        (["--run", RUN, "--kind", "RESERVED"], ["bolt 2", "bolt 1"]),
        (["--until", "2026-02-07T01:31+00:00"], ["acme 1"]),
        (["--since", "2026-02-07T01:31Z", "--until", "2026-02-08"], ["acme 3", "acme 2"]),
        (["--limit", "2"], ["bolt 5", "bolt 4"]),
        (["--account", "nobody"], []),
        (["--tenant", "acme", "--before", "3"], ["acme 2", "acme 1"]),
    ],
)
def test_a_filter_lets_through_what_was_asked_for(stoker, words, wanted):
    assert [f"{tenant} {seq}" for tenant, seq in listed(stoker, *words)] == wanted


def test_paging_backwards_shows_every_entry_once(stoker, ask):
    many = [
        NewEntry(at=LONG_AGO, kind="NOTED", subject=str(number), reason="")
        for number in range(2500)
    ]
    ask(lambda app: app.backend.tenant(ACME).ledger.append(many))

    seen, before = [], []
    while page := listed(stoker, "--tenant", "acme", "--limit", "700", *before):
        seen += [seq for _, seq in page]
        before = ["--before", str(seen[-1])]

    assert seen == list(range(2503, 0, -1))


def test_going_on_from_beyond_the_end_begins_at_the_end(stoker):
    words = ("--tenant", "bolt", "--before", str(2**63 - 1), "--limit", "2")
    assert listed(stoker, *words) == [("bolt", 5), ("bolt", 4)]


def test_a_full_page_says_how_to_go_on(stoker):
    _, out, _ = stoker("ledger", "list", "--tenant", "bolt", "--limit", "2")

    assert out.splitlines()[-1] == "Older entries: repeat with --before 4"


def test_a_refusal_is_listed_with_its_code_and_its_numbers(stoker):
    _, out, _ = stoker("ledger", "list", "--kind", "REFUSED")

    assert "CAP_CONNECTOR_DAY: tenant_connector/tavily/calls/day has 0 of 3 left, 2 needed" in out


def test_an_entry_is_shown_whole(stoker):
    code, out, _ = stoker("ledger", "show", "3", "--tenant", "bolt")

    assert code == 0
    assert "entry 3 of bolt: REFUSED k3" in out
    for name in ("account", "amounts", "cap", "code", "connector", "limit", "resets_at", "used"):
        assert f"\n{name} " in out
    answer = json.loads(stoker("ledger", "show", "3", "--tenant", "bolt", "--json")[1])
    assert (answer["data"]["used"], answer["data"]["limit"]) == (3, 3)
    assert len(answer["digest"]) == 64


def test_a_sound_ledger_passes(stoker):
    code, out, _ = stoker("ledger", "verify")

    assert code == 0
    assert [line for line in out.splitlines() if ": OK: " in line] == [
        "acme: OK: 3 entries, hash chain intact, totals match",
        "bolt: OK: 5 entries, hash chain intact, totals match",
    ]


@pytest.mark.parametrize(
    ("statement", "finding"),
    [
        (
            "UPDATE ledger SET reason = 'nothing' WHERE tenant_id = 'bolt' AND seq = 4",
            "the chain breaks at entry 4",
        ),
        (
            "DELETE FROM ledger WHERE tenant_id = 'bolt' AND seq = 2",
            "the chain breaks at entry 2",
        ),
        (
            "DELETE FROM ledger WHERE tenant_id = 'bolt' AND seq = 1",
            "entry 4 says SETTLED of k1, which was never reserved",
        ),
        (
            "DELETE FROM ledger WHERE tenant_id = 'bolt' AND seq >= 4",
            "the reservation k1: its entries say SENT, the store says that it is closed",
        ),
        (
            "UPDATE budgets SET settled = settled - 1 WHERE settled > 0",
            "its entries add up to 1 settled and 2 reserved, the total is 0 and 2",
        ),
        ("DELETE FROM budgets", "the total is 0 and 0"),
        (
            "UPDATE holds SET phase = 'RELEASED' WHERE key = 'k2'",
            "the reservation k2: its entries say SENT, the store says that it is closed",
        ),
    ],
)
def test_whatever_was_changed_behind_our_back_is_found(stoker, tmp_path, statement, finding):
    altered(tmp_path, statement)

    code, out, _ = stoker("ledger", "verify")
    assert code == 1
    assert finding in out
    assert out.startswith("acme: OK: 3 entries, hash chain intact, totals match\n")
    told = json.loads(stoker("ledger", "verify", "--json", "--tenant", "bolt")[1])
    assert told["ok"] is False
    assert any(finding in problem for problem in told["tenants"][0]["problems"])


def heads(stoker):
    _, out, _ = stoker("ledger", "verify", "--json")
    return {told["tenant"]: told["head"] for told in json.loads(out)["tenants"]}


def test_entries_taken_off_the_end_are_found_by_the_head_they_had(stoker, tmp_path):
    head = heads(stoker)["bolt"]
    assert head.startswith("5:")
    assert f"  {head}" in stoker("ledger", "verify", "--tenant", "bolt")[1].splitlines()
    assert stoker("ledger", "verify", "--tenant", "bolt", "--head", head)[0] == 0

    altered(tmp_path, "DELETE FROM ledger WHERE tenant_id = 'bolt' AND seq = 5")

    code, out, _ = stoker("ledger", "verify", "--tenant", "bolt", "--head", head)
    assert code == 1
    assert "it ends with entry 4, but had come to 5: the rest is gone" in out


def test_a_ledger_that_grew_is_still_held_to_the_head_it_had(stoker):
    before = heads(stoker)["bolt"]
    stoker("stop", "--tenant", "bolt")
    assert heads(stoker)["bolt"] != before
    assert stoker("ledger", "verify", "--tenant", "bolt", "--head", before)[0] == 0

    code, out, _ = stoker("ledger", "verify", "--tenant", "bolt", "--head", "5:" + "0" * 64)
    assert (code, "entry 5 was changed" in out) == (1, True)


@pytest.mark.parametrize("total", [3, 5])
def test_a_shared_total_that_is_not_what_tenants_took_is_found(stoker, tmp_path, ask, total):
    stoker("caps", "set", "connector/lusha/calls/day", "9")
    stoker("resume", "--tenant", "bolt", "--connector", "lusha")

    async def spend(app):
        for tenant in (ACME, BOLT):
            money, now = app.backend.tenant(tenant).budgets, app.clock.now()
            await money.reserve(
                SpendRequest(key="s", connector="lusha", amounts={"calls": 2}),
                caps=await list_caps(app.for_tenant(tenant)),
                reset=build_reset_rule(app.settings.for_tenant(tenant)),
                owner="w",
                until=now + timedelta(hours=1),
                now=now,
            )
            await money.settle("s", {"calls": 2}, now=now)

    ask(spend)
    assert stoker("ledger", "verify")[0] == 0
    altered(tmp_path, f"UPDATE shared_budgets SET settled = {total}")

    code, out, _ = stoker("ledger", "verify")
    assert code == 1
    assert "shared: connector/lusha/calls/day" in out
    assert f"tenants took 4, its total says {total}" in out


def test_an_export_has_every_entry_oldest_first_and_obeys_filters(stoker):
    _, out, _ = stoker("ledger", "export", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(out, newline="")))
    assert [(row["tenant"], int(row["seq"])) for row in rows] == [
        *[("acme", seq) for seq in (1, 2, 3)],
        *[("bolt", seq) for seq in (1, 2, 3, 4, 5)],
    ]

    _, out, _ = stoker("ledger", "export", "--format", "json", "--account", "one", "--limit", "2")
    assert [(row["tenant"], row["seq"]) for row in json.loads(out)] == [
        ("acme", 1),
        ("bolt", 1),
        ("bolt", 3),
    ]


def test_an_export_to_a_file_tells_programs_what_is_where(stoker, tmp_path):
    words = ("--out", "all.csv", "--tenant", "bolt", "--json")

    code, out, _ = stoker("ledger", "export", "--format", "csv", *words)

    assert code == 0
    assert json.loads(out) == {"entries": 5, "out": "all.csv", "format": "csv"}
    assert len((tmp_path / "all.csv").read_text().splitlines()) == 6


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["ledger", "list", "--since", "yesterday"], "is not a time"),
        (["ledger", "list", "--since", "2026-02-08", "--until", "2026-02-07"], "is not before"),
        (["ledger", "list", "--until", "2026-02-07T01:30"], "has no time zone"),
        (["ledger", "list", "--limit", "-1"], "-1 is not in the range"),
        (["ledger", "list", "--before", "3"], "choose a tenant with --tenant"),
        (["ledger", "list", "--tenant", "cargo"], "there is no tenant 'cargo'"),
        (["ledger", "show", "99", "--tenant", "bolt"], "bolt has no ledger entry 99"),
        (["ledger", "show", "9" * 20, "--tenant", "bolt"], "is not in the range"),
        (["ledger", "list", "--before", "9" * 20, "--tenant", "bolt"], "is not in the range"),
        (["ledger", "export", "--format", "csv", "--json"], "needs --out FILE"),
        (["ledger", "show", "-1", "--tenant", "bolt"], "No such option"),
        (["ledger", "show", "1"], "choose a tenant with --tenant"),
        (["ledger", "verify", "--tenant", "cargo"], "there is no tenant 'cargo'"),
        (["ledger", "verify", "--head", "5:" + "0" * 64], "choose a tenant with --tenant"),
        (["ledger", "verify", "--head", "5", "--tenant", "bolt"], "is not SEQ:DIGEST"),
        (["ledger", "export"], "Missing option '--format'"),
        (["ledger", "export", "--format", "xlsx"], "'xlsx' is not one of"),
        (["ledger", "export", "--format", "parquet"], "--out FILE"),
        (["ledger", "export", "--format", "csv", "--out", "no/such/x.csv"], "cannot be written"),
        (["ledger", "export", "--format", "csv", "--out", "stoker.toml"], "is already there"),
    ],
)
def test_what_cannot_be_meant_is_answered_in_one_line(stoker, words, complaint):
    code, out, err = stoker(*words)

    assert (code, out) == (2, "")
    assert complaint in err
    assert err.startswith("stoker: ")
    assert len(err.splitlines()) == 1


def test_what_operators_do_is_listed_shown_exported_and_verified_with_shared(stoker):
    assert stoker("ledger", "verify", "--shared")[1] == (
        "all tenants: OK: 0 entries, hash chain intact, stops and caps match\n"
    )
    stoker("stop", "--reason", "the bill looks wrong")

    [entry] = json.loads(stoker("ledger", "list", "--shared", "--json")[1])
    assert (entry["tenant"], entry["kind"], entry["subject"]) == ("everybody", "STOPPED", "*")
    assert "entry 1 of all tenants: STOPPED *" in stoker("ledger", "show", "1", "--shared")[1]
    _, out, _ = stoker("ledger", "export", "--format", "json", "--shared")
    assert [row["reason"] for row in json.loads(out)] == ["the bill looks wrong"]
    code, out, _ = stoker("ledger", "verify", "--json")
    assert (code, json.loads(out)["everybody"]["entries"]) == (0, 1)
    head = json.loads(out)["everybody"]["head"]
    assert stoker("ledger", "verify", "--shared", "--head", head)[0] == 0


@pytest.mark.parametrize(
    ("statement", "finding"),
    [
        ("DELETE FROM shared_stops", "the ledger stops every connector, the store does not"),
        ("UPDATE shared_cap_changes SET new_limit = 5", "says limit 9, the store says limit 5"),
        (
            "UPDATE ledger SET reason = 'x' WHERE tenant_id = '0-operators' AND seq = 1",
            "the chain breaks at entry 1",
        ),
    ],
)
def test_what_was_changed_behind_the_operators_ledger_is_found(
    stoker, tmp_path, statement, finding
):
    stoker("stop")
    stoker("caps", "set", "connector/lusha/calls/day", "9")
    altered(tmp_path, statement)

    code, out, _ = stoker("ledger", "verify")
    assert code == 1
    assert "all tenants: WRONG: 2 entries" in out
    assert finding in out


@pytest.mark.parametrize("verb", [("list",), ("show", "1"), ("verify",)])
def test_shared_and_a_tenant_exclude_each_other(stoker, verb):
    code, _, err = stoker("ledger", *verb, "--shared", "--tenant", "acme")
    assert (code, "--shared is of no tenant" in err) == (2, True)


def test_an_entry_of_everybody_that_is_not_there_says_where_to_look(stoker):
    code, _, err = stoker("ledger", "show", "9", "--shared")
    assert (code, "stoker ledger list --shared" in err) == (2, True)
