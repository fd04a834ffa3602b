import asyncio
import json
import re
import shlex
import sqlite3
from datetime import datetime, timedelta

import pytest

from stoker.app import open_app, read_settings, system_clock
from stoker.base.types import TenantId
from stoker.budgets.charges import Refusal, SpendRequest
from stoker.budgets.reservations import ReservationStatus
from stoker.budgets.service import build_reset_rule, list_caps
from stoker.cli.main import main

TWO_TENANTS = """
[tenants.merlion]
timezone = "Asia/Singapore"
[tenants.hudson]
timezone = "America/New_York"
caps.reset_time = "06:30"
caps.tavily_queries = 10
"""
MERLION, HUDSON = TenantId("merlion"), TenantId("hudson")
TAVILY = "tenant_connector/tavily/calls/day"


@pytest.fixture
def stoker(tmp_path, capsys):
    """Run a command in a directory of its own; return its exit code, output and complaints."""
    (tmp_path / "stoker.toml").write_text(TWO_TENANTS)

    def ask(*words):
        code = main(["-C", str(tmp_path), *words])
        said = capsys.readouterr()
        return code, said.out, said.err

    return ask


@pytest.fixture
def spend(tmp_path, stoker):
    """Reserve as a worker does, in the same store: `spend("k", "tavily", calls=2)`."""

    async def reserved(key, connector, *, tenant, owner, lease, sends_at_once, amounts):
        own = read_settings(directory=tmp_path, config=None, flags={}, environment={})
        async with open_app(own) as app:
            now = app.clock.now()
            request = SpendRequest(
                key=key, connector=connector, amounts=amounts, sends_at_once=sends_at_once
            )
            return await app.backend.tenant(tenant).budgets.reserve(
                request,
                caps=await list_caps(app.for_tenant(tenant)),
                reset=build_reset_rule(app.settings.for_tenant(tenant)),
                owner=owner,
                until=now + lease,
                now=now,
            )

    def spending(
        key,
        connector="tavily",
        *,
        tenant=HUDSON,
        owner="worker-1",
        lease=timedelta(minutes=30),
        sends_at_once=True,
        **amounts,
    ):
        return asyncio.run(
            reserved(
                key,
                connector,
                tenant=tenant,
                owner=owner,
                lease=lease,
                sends_at_once=sends_at_once,
                amounts={name.replace("_in_", ":"): number for name, number in amounts.items()}
                or {"calls": 1},
            )
        )

    return spending


@pytest.fixture
def money(tmp_path, stoker):
    """Use one verb of a tenant's money store: `money("settle", "k", {"calls": 1})`."""

    async def asked(verb, *given, **named):
        own = read_settings(directory=tmp_path, config=None, flags={}, environment={})
        async with open_app(own) as app:
            store = app.backend.tenant(HUDSON).budgets
            return await getattr(store, verb)(*given, now=app.clock.now(), **named)

    return lambda verb, *given, **named: asyncio.run(asked(verb, *given, **named))


def caps_of(stoker, tenant, *words):
    _, out, _ = stoker("caps", "list", "--json")
    return {line["cap"]: line for line in json.loads(out)["caps"] if line["tenant"] == tenant}


def kinds(stoker, tenant):
    _, out, _ = stoker("ledger", "list", "--json", "--tenant", tenant)
    return [(entry["kind"], entry["subject"]) for entry in reversed(json.loads(out))]


def shared_kinds(stoker):
    _, out, _ = stoker("ledger", "list", "--json", "--shared")
    return [(entry["kind"], entry["subject"]) for entry in reversed(json.loads(out))]


def test_small_caps_are_on_by_default_and_each_tenant_has_its_own(stoker):
    merlion, hudson = caps_of(stoker, "merlion"), caps_of(stoker, "hudson")

    assert {cap: line["limit"] for cap, line in merlion.items()} == {
        "tenant/*/money:USD/day": 1000,
        "tenant/*/pull_units/day": 3000,
        "tenant_connector/lusha/calls/day": 1000,
        "tenant_connector/lusha/credits/day": 2000,
        "tenant_connector/openai/calls/day": 2000,
        "tenant_connector/openai/tokens/day": 2_500_000,
        "tenant_connector/tavily/calls/day": 1000,
        "tenant_connector/tavily/credits/day": 1000,
        "tenant_connector/zerobounce/calls/day": 3000,
        "tenant_connector/zerobounce/credits/day": 3000,
    }
    assert hudson[TAVILY]["limit"] == 10


def test_every_cap_says_when_it_resets_on_its_tenants_wall(stoker):
    resets = r"resets in (\d+ h \d+ m|\d+ m \d+ s|\d+ s) "

    for line in caps_of(stoker, "merlion").values():
        assert re.fullmatch(resets + r"\(00:00 \+08\)", line["resets"])
    for line in caps_of(stoker, "hudson").values():
        assert re.fullmatch(resets + r"\(06:30 E[SD]T\)", line["resets"])


def test_what_was_charged_above_the_cap_is_shown_as_over(stoker, spend, money):
    spend("a", calls=10)
    money("settle", "a", {"calls": 13})

    line = caps_of(stoker, "hudson")[TAVILY]
    assert (line["used"], line["free"], line["over"]) == (13, 0, 3)
    assert "over by 3" in stoker("caps", "list")[1]


def test_open_reservations_are_listed_with_their_state_and_lease(stoker, spend, money):
    spend("held", sends_at_once=False)
    spend("mark_sent", owner="worker-2")
    spend("late", lease=timedelta(seconds=-90))
    spend("unsure")
    money("mark_uncertain", "unsure", reason="timed out")

    code, out, _ = stoker("holds")
    lines = {line.split()[1]: line for line in out.splitlines() if line.startswith("hudson  ")}
    assert code == 0
    assert re.search(r"HELD +1 call +worker-1 +\d+ s +ends in 29 m", lines["held"])
    assert re.search(r"SENT +1 call +worker-2 ", lines["mark_sent"])
    assert re.search(r"SENT .* ended (1 m \d+ s) ago", lines["late"])
    assert lines["unsure"].split()[2] == "UNCERTAIN"


def test_holds_end_with_every_cap_and_its_numbers_add_up(stoker, spend, money):
    spend("a", calls=3)
    spend("b", calls=4)
    spend("c", "openai", tokens=700, money_in_USD=25)
    money("settle", "a", {"calls": 2})

    code, out, _ = stoker("holds", "--json")
    answer = json.loads(out)
    reserved = {line["cap"]: line["reserved"] for line in answer["caps"] if line["reserved"]}
    assert (code, answer["wrong"]) == (0, [])
    assert [hold["key"] for hold in answer["holds"]] == ["b", "c"]
    assert reserved == {
        TAVILY: 4,
        "tenant_connector/openai/tokens/day": 700,
        "tenant/*/money:USD/day": 25,
    }
    for line in answer["caps"]:
        assert line["used"] + line["reserved"] + line["free"] == line["limit"]


def test_a_total_that_its_holds_do_not_explain_is_told_with_exit_code_1(stoker, spend, tmp_path):
    spend("a", calls=3)
    with sqlite3.connect(tmp_path / "stoker.db") as naive:
        naive.execute("UPDATE budgets SET reserved = reserved - 1 WHERE reserved > 0")
    naive.close()

    code, _, err = stoker("holds")
    assert code == 1
    assert "2 is reserved, but its open reservations add up to 3" in err
    assert "stoker ledger verify" in err


def test_an_uncertain_promise_comes_with_the_commands_that_end_it_and_they_work(
    stoker, spend, money
):
    for key in ("--done, isn't it", "not done"):
        spend(key, calls=2)
        money("mark_uncertain", key, reason="timed out")

    _, out, _ = stoker("holds")
    typed = [line.strip() for line in out.splitlines() if line.startswith("  stoker holds")]
    settle, _, _, release = (shlex.split(line)[1:] for line in typed)
    assert len(typed) == 4
    assert json.loads(stoker(*settle[:2], "--json", *settle[2:])[1])["actual"] == {"calls": 2}
    assert json.loads(stoker(*release[:2], "--json", *release[2:])[1])["phase"] == "RELEASED"

    line = caps_of(stoker, "hudson")[TAVILY]
    assert (line["used"], line["reserved"], line["free"]) == (2, 0, 8)
    assert json.loads(stoker("holds", "--json")[1])["holds"] == []


def test_a_promise_somebody_is_at_work_on_is_not_ended_by_hand(stoker, spend):
    spend("a")

    code, _, err = stoker("holds", "release", "a", "--reason", "hurry", "--tenant", "hudson")
    assert (code, "worker-1" in err) == (2, True)


def test_setting_a_cap_changes_it_from_now_on_and_is_a_ledger_entry(stoker, spend):
    assert stoker("caps", "set", "tavily/calls/day", "2", "--tenant", "hudson")[0] == 0

    assert isinstance(spend("a", calls=3), Refusal)
    assert spend("b", calls=2).status is ReservationStatus.SENT
    assert kinds(stoker, "hudson")[0] == ("CAP_CHANGED", TAVILY)
    assert caps_of(stoker, "merlion")[TAVILY]["limit"] == 1000


def test_a_cap_that_is_not_there_is_added_by_setting_it(stoker, spend):
    cap = "tenant_connector/lusha/tokens/week"
    code, out, _ = stoker("caps", "set", cap, "5", "--tenant", "hudson", "--json")

    assert (code, json.loads(out)["added"]) == (0, True)
    assert spend("a", "lusha", tokens=5).charges[0].cap == cap
    assert spend("b", "lusha", tokens=1).reason == "CAP_CONNECTOR_WEEK"


def test_a_raise_holds_until_its_end_and_is_a_ledger_entry(stoker, spend):
    assert stoker("caps", "raise", TAVILY, "12", "--until", "2h", "--tenant", "hudson")[0] == 0
    line = caps_of(stoker, "hudson")[TAVILY]
    ends = datetime.fromisoformat(line["raised_until"]) - system_clock().now()
    assert line["limit"] == 12
    assert timedelta(minutes=100) < ends <= timedelta(hours=2)
    assert spend("a", calls=12).status is ReservationStatus.SENT
    assert kinds(stoker, "hudson")[0] == ("CAP_RAISED", TAVILY)


def test_setting_a_limit_also_ends_a_raise_that_a_setting_has_overtaken(stoker, tmp_path):
    stoker("caps", "raise", TAVILY, "50", "--until", "2h", "--tenant", "hudson")
    (tmp_path / "stoker.toml").write_text(TWO_TENANTS.replace("queries = 10", "queries = 60"))

    stoker("caps", "set", TAVILY, "4", "--tenant", "hudson")

    line = caps_of(stoker, "hudson")[TAVILY]
    assert (line["limit"], line["raised_until"]) == (4, None)


def test_changing_a_cap_tells_programs_what_it_was_and_is(stoker):
    shared = "connector/tavily/calls/hour"

    def told(*words):
        code, out, err = stoker("caps", *words, "--json")
        assert code == 0, err
        return json.loads(out)

    raised = told("raise", TAVILY, "50", "--until", "2090-01-01T00:00Z", "--tenant", "hudson")
    assert raised == {
        "tenant": "hudson",
        "cap": TAVILY,
        "raised_to": 50,
        "raised_until": "2090-01-01T00:00:00+00:00",
        "limit": 10,
    }
    assert told("set", TAVILY, "4", "--tenant", "hudson") == {
        "tenant": "hudson",
        "cap": TAVILY,
        "limit": 4,
        "was": 10,
        "raise_ended": True,
        "added": False,
    }
    assert told("set", shared, "5") == {
        "tenant": "everybody",
        "cap": shared,
        "limit": 5,
        "was": None,
        "raise_ended": False,
        "added": True,
    }


def test_ending_a_promise_by_hand_tells_programs_how_it_ended(stoker, spend, money):
    for key in ("a", "b"):
        spend(key, calls=2)
        money("mark_uncertain", key, reason="timed out")

    _, out, _ = stoker("holds", "settle", "a", "calls=5", "--tenant", "hudson", "--json")
    settled = json.loads(out)
    _, out, _ = stoker("holds", "release", "b", "--reason", "no", "--tenant", "hudson", "--json")
    released = json.loads(out)

    assert (settled["tenant"], settled["key"], settled["phase"]) == ("hudson", "a", "SETTLED")
    assert (settled["actual"], settled["overrun"]) == ({"calls": 5}, {"calls": 3})
    assert (released["key"], released["phase"], released["reason"]) == ("b", "RELEASED", "no")
    assert (released["amounts"], released["actual"]) == ({"calls": 2}, {})


def test_a_cap_that_tenants_share_is_listed_once_and_noted_in_the_shared_ledger(stoker, spend):
    shared = "connector/tavily/calls/hour"
    stoker("caps", "set", shared, "5")
    stoker("caps", "raise", shared, "6", "--until", "1d")
    spend("a", calls=4)

    assert isinstance(spend("b", calls=3, tenant=MERLION), Refusal)
    assert spend("c", calls=2, tenant=MERLION).status is ReservationStatus.SENT
    line = caps_of(stoker, "everybody")[shared]
    assert (line["used"], line["reserved"], line["free"], line["limit"]) == (0, 6, 0, 6)
    assert line["resets"].endswith("UTC)")
    for tenant in ("merlion", "hudson"):
        assert shared not in caps_of(stoker, tenant)
    assert shared_kinds(stoker) == [("CAP_CHANGED", shared), ("CAP_RAISED", shared)]


def test_a_stop_for_everybody_is_seen_by_every_tenant_and_shows_what_is_in_flight(stoker, spend):
    spend("before", calls=2)
    spend("other", "lusha", tenant=MERLION)

    code, out, _ = stoker("stop", "--reason", "the bill looks wrong", "--json")

    answer = json.loads(out)
    [stopped] = answer["stops"]
    assert code == 0
    assert (stopped["tenant"] or None, stopped["connector"]) == (None, "")
    assert stopped["reason"] == "the bill looks wrong"
    assert {each["key"] for each in answer["in_flight"]} == {"before", "other"}
    for tenant in (MERLION, HUDSON):
        assert spend(f"after {tenant}", tenant=tenant).reason == "STOPPED"
    assert shared_kinds(stoker) == [("STOPPED", "*")]


def test_a_stop_can_be_for_one_tenant_and_one_connector(stoker, spend):
    code, out, _ = stoker("stop", "--tenant", "hudson", "--connector", "tavily", "--json")

    [stopped] = json.loads(out)["stops"]
    assert (code, stopped["tenant"], stopped["connector"]) == (0, "hudson", "tavily")
    assert spend("a").reason == "STOPPED"
    assert spend("b", "lusha").status is ReservationStatus.SENT
    assert spend("c", tenant=MERLION).status is ReservationStatus.SENT


def test_resuming_takes_back_one_stop_and_shows_those_that_are_left(stoker, spend):
    stoker("stop")
    stoker("stop", "--tenant", "hudson", "--connector", "lusha")

    assert not json.loads(stoker("resume", "--connector", "lusha", "--json")[1])["resumed"]
    code, out, _ = stoker("resume", "--json")

    answer = json.loads(out)
    assert (code, answer["resumed"]) == (0, True)
    assert [(each["tenant"], each["connector"]) for each in answer["stops"]] == [
        ("hudson", "lusha")
    ]
    assert spend("a").status is ReservationStatus.SENT
    assert spend("b", "lusha").reason == "STOPPED"
    assert stoker("resume", "--tenant", "hudson", "--connector", "lusha")[0] == 0
    assert spend("b", "lusha").status is ReservationStatus.SENT


def test_a_stop_of_a_connector_nobody_knows_holds_but_asks_whether_it_was_meant(stoker, spend):
    _, out, _ = stoker("stop", "--connector", "tavly")

    assert "There is no connector tavly" in out
    assert "There is no connector" not in stoker("stop", "--connector", "odoo")[1]


def test_the_list_of_caps_ends_with_the_stops_in_force(stoker):
    stoker("stop", "--connector", "tavily")
    stoker("stop", "--tenant", "hudson")

    stops = json.loads(stoker("caps", "list", "--json")[1])["stops"]
    assert [(stop["tenant"] or None, stop["connector"]) for stop in stops] == [
        (None, "tavily"),
        ("hudson", ""),
    ]


HUDSONS = ("--tenant", "hudson")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["caps", "set", "nonsense", "5", *HUDSONS], "unknown cap 'nonsense'"),
        (["caps", "set", "tavly/calls/day", "5", *HUDSONS], "there is no connector tavly"),
        (["caps", "set", "tavly/calls/run", "5", *HUDSONS], "there are: crawl, tavily, openai"),
        (["caps", "set", "connector/tavly/calls/day", "5"], "this cap would bind nothing"),
        (["caps", "set", "tenant/*/calls/month", "5", *HUDSONS], "unknown cap"),
        (["caps", "set", "tenant/*/smiles/day", "5", *HUDSONS], "'smiles' is no unit"),
        (["caps", "set", "tenant/*/money:dollars/day", "5", *HUDSONS], "is no unit"),
        (["caps", "set", "tenant/tavily/calls/day", "5", *HUDSONS], "counts all connectors"),
        (["caps", "set", "tenant//calls/day", "5", *HUDSONS], "did you mean tenant/*/calls/day?"),
        (["caps", "set", TAVILY, "-5", *HUDSONS], "LIMIT is -5; allowed"),
        (["caps", "set", TAVILY, "1.5", *HUDSONS], "LIMIT is '1.5'; write a whole number"),
        (["caps", "set", TAVILY, "9" * 17, *HUDSONS], "allowed: whole numbers"),
        (["caps", "set", TAVILY, "5"], "choose a tenant with --tenant"),
        (["caps", "set", TAVILY, "5", "--tenant", "acme"], "there is no tenant 'acme'"),
        (["caps", "set", "connector/tavily/calls/day", "5", *HUDSONS], "leave out --tenant"),
        (["caps", "raise", TAVILY, "20", *HUDSONS], "Missing option '--until'"),
        (["caps", "raise", TAVILY, "20", "--until", "2020-01-01", *HUDSONS], "is not ahead"),
        (["caps", "raise", TAVILY, "20", "--until", "0h", *HUDSONS], "is not ahead"),
        (["caps", "raise", TAVILY, "20", "--until", "soon", *HUDSONS], "2h, 90m, 3d"),
        (["caps", "raise", TAVILY, "20", "--until", "2090-01-01T10:00", *HUDSONS], "no time zone"),
        (["caps", "raise", TAVILY, "9", "--until", "2h", *HUDSONS], "so 9 raises nothing"),
        (["caps", "raise", "tenant/*/calls/day", "9", "--until", "2h", *HUDSONS], "no cap"),
        (["caps", "raise", "connector/tavily/calls/day", "9", "--until", "2h"], "no cap"),
        (["holds", "settle", "nobody", "calls=1", *HUDSONS], "has no reservation 'nobody'"),
        (["holds", "settle", "unsure", "calls", *HUDSONS], "is not UNIT=AMOUNT"),
        (["holds", "settle", "unsure", "calls=-1", *HUDSONS], "calls is -1; allowed"),
        (["holds", "settle", "unsure", "smiles=1", *HUDSONS], "'smiles' is no unit"),
        (
            ["holds", "settle", "unsure", "tokens=1", *HUDSONS],
            "reserved calls, not tokens",
        ),
        (
            ["holds", "settle", "unsure", "calls=1", "calls=2", *HUDSONS],
            "is given twice",
        ),
        (["holds", "settle", "unsure", *HUDSONS], "Missing argument"),
        (["holds", "release", "unsure", *HUDSONS], "Missing option '--reason'"),
        (
            ["holds", "release", "unsure", "--reason", " ", *HUDSONS],
            "--reason is empty",
        ),
        (
            ["holds", "release", "done", "--reason", "x", *HUDSONS],
            "done is SETTLED already",
        ),
        (
            ["holds", "--json", "release", "unsure", "--reason", "x"],
            "No such option",
        ),
        (["stop", "--connector", "No Such"], "is no connector"),
        (["stop", "--tenant", "acme"], "there is no tenant 'acme'"),
        (["resume", "--connector", "No Such"], "is no connector"),
        (["resume", "--tenant", "acme"], "there is no tenant 'acme'"),
    ],
)
def test_what_cannot_be_meant_is_answered_in_one_line(stoker, spend, money, words, complaint):
    spend("unsure")
    money("mark_uncertain", "unsure", reason="timed out")
    spend("done")
    money("settle", "done", {"calls": 1})
    before = kinds(stoker, "hudson")

    code, out, err = stoker(*words)

    assert (code, out) == (2, ""), err
    assert complaint in err
    assert err.startswith("stoker: ")
    assert len(err.splitlines()) == 1
    assert kinds(stoker, "hudson") == before
