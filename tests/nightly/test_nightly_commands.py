"""Nights by hand, and what can be asked about them afterwards."""

import io
import math
import re
import signal
import subprocess
import sys
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta

import apsw
import pytest

from night_desk import Desk, small_internet
from running_box import RunningBox
from stoker.app import system_clock
from stoker.base.events import CompanyEnded, ConnectorRests, NightPlanned, NightProgress, UnitsShed
from stoker.base.types import TenantId
from stoker.enrichment.model import KIND
from stoker.nightly.commands_report import NightReport, print_night
from stoker.nightly.progress import ProgressDisplay
from stoker.runs.model import Manifest, Run, RunKey, RunState
from stoker.testing import EventRecorder

TAVILY_CALLS = pytest.approx(5.6)  # of four companies: a search each, and pages read for some


@pytest.fixture(scope="module")
def box():
    with small_internet() as running:
        yield running


@pytest.fixture
def stoker(tmp_path, capsys, box):
    return Desk(tmp_path, capsys, box)


def test_a_night_of_two_tenants_is_told_and_can_be_asked_about(stoker, box):
    stoker.set_up("acme", "bolt")
    charged = dict(box.box.charges.get("tavily", {}))
    code, nights = stoker.told("nightly", "--limit", "3")

    assert code in (0, 3)
    assert [night["tenant"] for night in nights] == ["acme", "bolt"]
    for night in nights:
        assert (night["kind"], len(night["manifest"]["selected"])) == ("nightly", 3)
        assert night["manifest"]["counts"]["crm_written"] > 0
    paid = sum(night["manifest"]["cost"].get("tavily/credits", 0) for night in nights)
    assert box.box.charges["tavily"]["credits"] - charged.get("credits", 0) == paid

    company = nights[0]["manifest"]["selected"][0]
    _, told = stoker.told("why", f"acme/{company}")
    assert (told["company"], told["fit"]["fits"]) == (company, True)
    assert told["night"]["run"] == nights[0]["run"]
    assert told["night"]["cost"]["crawl/pull_units"] == 3
    _, story, _ = stoker("why", f"acme/{company.lower()}")
    assert "selected as number 1, deep: never scored" in story
    assert "Cost: crawl 3 pull units" in story

    found = stoker.told("leads", "--min", "0")[1]
    assert len(found) == 6
    assert [lead["score"] for lead in found] == sorted(
        (lead["score"] for lead in found), reverse=True
    )
    assert stoker("leads", "--min", "0", "--csv")[1].count('"acme"') == 3
    assert stoker("ledger", "verify")[0] == 0


def test_the_night_is_told_to_people_in_words(stoker):
    stoker.set_up("carp")
    code, out, _ = stoker("nightly", "--limit", "2")

    assert code in (0, 3)
    assert "carp  run 2" in out
    assert re.search(r"Companies +2 of", out)
    assert re.search(r"Spent +crawl 6 pull units", out)
    assert re.search(r"CRM +[0-9]+ written", out)


@pytest.mark.parametrize("how", ["--dry-run", "--plan"])
def test_a_plan_asks_nobody_writes_no_crm_and_leaves_no_run(stoker, box, how):
    stoker.set_up("acme")
    before, charges = box.meter.requests, dict(box.box.charges)
    code, [plan] = stoker.told("nightly", how, "--limit", "4")

    assert (code, plan["companies"], plan["deep"]) == (0, 4, 4)
    assert plan["quote"]["calls"]["tavily"] == TAVILY_CALLS
    assert plan["quote"]["p90_s"] >= plan["quote"]["p50_s"] > 0
    assert ("selected" in plan) is (how == "--dry-run")
    assert (box.meter.requests, box.box.charges) == (before, charges)
    assert stoker.told("runs", "list")[1] == []
    _, out, _ = stoker("nightly", how, "--limit", "4")
    assert "Expected to take" in out
    assert "Estimate based on rough numbers" in out
    assert ("never scored" in out) is (how == "--dry-run")


def test_who_waits_is_told_whether_for_the_limit_asked_for_or_for_the_cap(stoker):
    stoker.set_up("acme")
    few = ("--set", "scheduling.daily_cap_per_tenant=5")
    _, limited, _ = stoker(*few, "nightly", "--plan", "--limit", "3")
    _, capped, _ = stoker(*few, "nightly", "--plan", "--limit", "9")
    _, plain, _ = stoker(*few, "nightly", "--plan")

    [candidates] = {int(each) for each in re.findall(r"(\d+) candidates: ", limited + plain)}
    assert f"{candidates} candidates: {math.ceil(candidates / 3)} nights at this pace" in limited
    assert f"{candidates} candidates: {math.ceil(candidates / 5)} nights at this pace" in plain
    assert "wait for a later run: --limit 3 is reached" in limited
    assert "the cap on companies is reached" not in limited
    for told in (capped, plain):
        assert "wait for a later run: the cap on companies is reached" in told
        assert "--limit" not in told


@pytest.mark.parametrize("how", ["--dry-run", "--plan"])
@pytest.mark.parametrize("whose", [(), ("--tenant", "acme")])
def test_a_plan_while_spending_is_stopped_expects_nothing_and_says_how_to_take_it_back(
    stoker, how, whose
):
    stoker.set_up("acme")
    stoker("stop", "--reason", "the bill", *whose)
    _, [plan] = stoker.told("nightly", how, "--limit", "4")
    _, out, _ = stoker("nightly", how, "--limit", "4")
    stoker("resume", *whose)
    _, [resumed] = stoker.told("nightly", how, "--limit", "4")

    back = " ".join(("stoker", "resume", *whose))
    assert plan["companies"] == 4
    assert not any((*plan["quote"]["calls"].values(), *plan["quote"]["cost"].values()))
    assert plan["quote"]["refused"] == {
        "crawl": 4,
        "tavily": TAVILY_CALLS,
        "openai": 4,
        "lusha": pytest.approx(2.2),
        "zerobounce": 8,
    }
    [stop] = plan["stops"]
    assert (stop["tenant"], stop["connector"]) == (whose[1] if whose else None, "")
    assert (stop["reason"], stop["resume"]) == ("the bill", back)
    assert f": the bill\n  Allow it again with: {back}\n" in out
    assert (resumed["stops"], resumed["quote"]["calls"]["tavily"]) == ([], TAVILY_CALLS)


def test_a_plan_says_of_one_stopped_connector_what_it_refuses_and_quotes_the_others(stoker):
    stoker.set_up("acme")
    stoker("stop", "--connector", "tavily", "--tenant", "acme")
    _, [plan] = stoker.told("nightly", "--plan", "--limit", "4")
    _, out, _ = stoker("nightly", "--plan", "--limit", "4")

    assert plan["quote"]["calls"]["tavily"] == 0
    assert plan["quote"]["refused"] == {"tavily": TAVILY_CALLS}
    assert (plan["quote"]["calls"]["openai"], plan["quote"]["cost"]["crawl/pull_units"]) == (4, 12)
    assert "stoker resume --tenant acme" in out
    [stop] = plan["stops"]
    assert stop["resume"] == "stoker resume --tenant acme --connector tavily"


def test_a_plan_speaks_only_of_stops_that_its_steps_meet(stoker):
    stoker.set_up("acme")
    for each in ("crawl", "odoo", "boards"):
        stoker("stop", "--connector", each)

    def stops(*words):
        return [
            each["connector"] for each in stoker.told("nightly", "--plan", *words)[1][0]["stops"]
        ]

    assert stops() == ["crawl", "odoo"]
    assert stops("--skip", "export") == ["crawl"]
    assert stops("--only", "select", "--only", "export") == ["odoo"]
    assert stops("--only", "select", "--only", "verify") == []
    stoker("stop")
    assert stops("--only", "select", "--only", "score") == []


def test_a_plan_of_nobody_says_why_and_what_to_do(stoker):
    stoker.set_up("acme")
    stoker("icp", "set", "--tenant", "acme", "--industry", "99")
    code, out, _ = stoker("nightly", "--plan", "--tenant", "acme")
    assert code == 0
    assert "no company matches ICP 'default'; see it with: stoker icp show" in out
    assert "icp show" in stoker.told("nightly", "--plan", "--tenant", "acme")[1][0]["nobody"]


def test_a_cap_that_is_reached_is_told_with_the_reason_and_in_the_exit_code(stoker):
    stoker.set_up("acme")
    stoker("caps", "set", "tenant_connector/tavily/calls/day", "1", "--tenant", "acme")
    code, out, _ = stoker("nightly", "--limit", "4")

    assert code == 3
    assert "PARTIAL" in out
    assert "tavily was not called: Tavily calls per day has too little left of 1" in out
    assert "when the first cap resets" in out


def test_a_vendor_that_does_not_answer_is_named_and_not_taken_for_a_companys_site(tmp_path, capsys):
    with RunningBox(companies=20, dials={"zerobounce.fault.close": 1}) as silent:
        stoker = Desk(tmp_path, capsys, silent).set_up("acme")
        _, [night] = stoker.told("nightly", "--limit", "4")
        verifying = [each for each in night["manifest"]["reasons"] if "zerobounce" in each]
        companies = night["manifest"]["selected"]
        told = [stoker("why", f"acme/{company}")[1] for company in companies]

    assert verifying
    assert not any("its site" in each for each in verifying)
    assert any("verify: zerobounce" in each for each in told)


def test_an_earlier_selection_is_repeated_exactly(stoker):
    stoker.set_up("acme")
    only = [word for step in ("refresh", "candidates", "select") for word in ("--only", step)]
    [first] = stoker.told("nightly", "--limit", "2", *only)[1]
    skipped = ("--skip", "export", "--skip", "verify")
    repeated = ("--from-manifest", first["run"], "--again")
    [again] = stoker.told("nightly", *repeated, *skipped)[1]

    assert len(first["manifest"]["selected"]) == 2
    assert first["manifest"]["cost"] == {}
    assert again["manifest"]["selected"] == first["manifest"]["selected"]
    assert not {"zerobounce/calls"} & set(again["manifest"]["cost"])
    assert "crm_written" not in again["manifest"]["counts"]


def test_the_plan_of_a_rerun_says_how_many_were_looked_at_today(stoker):
    stoker.set_up("acme")
    plainly = [word for step in ("contacts", "export") for word in ("--skip", step)]
    [first] = stoker.told("nightly", "--limit", "2", *plainly)[1]
    code, out, _ = stoker("nightly", "--plan", "--limit", "2")
    assert first["state"] == "DONE"
    assert "2 already researched today" in out
    assert "Estimate based on the last nightly run." in out
    [plan] = stoker.told("nightly", "--dry-run", "--limit", "2", "--again")[1]
    assert (code, plan["companies"], plan["looked_at_today"]) == (0, 2, 0)
    assert plan["quote"]["learned_from_nights"] == 1


def test_tenants_that_are_not_ready_are_left_out_and_told_why(stoker):
    stoker.set_up("acme", "bolt")
    stoker("crm", "connect", "--tenant", "bolt")
    stoker("crm", "disconnect", "--tenant", "bolt")
    code, out, err = stoker("nightly", "--plan")

    assert code == 0
    assert ("acme: " in out, "bolt: " in out) == (True, False)
    assert "bolt is skipped: its CRM is disconnected" in err
    assert "bolt: " in stoker("nightly", "--plan", "--tenant", "bolt")[1]


def upkeep_and_nights(told):
    both = ("upkeep", "nightly")
    return [(each["tenant"], each["kind"]) for each in told if each["kind"] in both]


def test_the_daemon_has_the_nights_of_those_who_are_ready(stoker):
    stoker.set_up("acme", "bolt")
    stoker("crm", "connect", "--tenant", "bolt")
    stoker("crm", "disconnect", "--tenant", "bolt")
    few = ("--set", "scheduling.daily_cap_per_tenant=2")
    _, ran = stoker.told(*few, "schedule", "run", "--once")

    kinds = [("acme", "upkeep"), ("acme", "nightly"), ("bolt", "upkeep")]
    assert sorted(upkeep_and_nights(ran)) == sorted(kinds)
    assert stoker("schedule", "run", "--once")[1] == "Nothing is due.\n"

    _, coming = stoker.told("schedule", "next", "--count", "1")
    assert upkeep_and_nights(coming) == kinds
    _, audit = stoker.told("schedule", "audit")
    assert upkeep_and_nights(audit["findings"]) == kinds
    stoker("crm", "connect", "--tenant", "acme")
    stoker("crm", "disconnect", "--tenant", "acme")
    _, audit = stoker.told("schedule", "audit")
    assert upkeep_and_nights(audit["findings"]) == kinds


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["nightly"], "is not ready: it has no ICP 'default': stoker icp set"),
        (["nightly", "--skip", "bake"], "there is no step 'bake'"),
        (["nightly", "--skip", "crawl", "--only", "crawl"], "is both in --only and in --skip"),
        (["nightly", "--tenant", "nobody"], "there is no tenant 'nobody'"),
        (["nightly", "--limit", "-1"], "-1 is not in the range"),
        (["why", "default/nobody"], "default has no company 'nobody'"),
        (["why", "default/"], "name a company"),
        (["leads", "--csv", "--json"], "choose one"),
    ],
)
def test_what_cannot_be_meant_is_answered_in_one_line(stoker, words, complaint):
    code, out, err = stoker(*words)
    assert (code, out) == (2, "")
    assert complaint in err
    assert len(err.splitlines()) == 1


def test_a_run_that_is_not_there_is_named_before_anything_begins(stoker):
    stoker.set_up("acme")
    code, _, err = stoker("nightly", "--from-manifest", "20200101_000000")
    assert (code, "acme has no run 20200101_000000" in err) == (2, True)
    assert stoker.told("runs", "list")[1] == []


def test_what_pages_said_can_be_read_where_it_is_kept(stoker):
    stoker.set_up("acme")
    keeps = ("--set", "crawl.persist_corpus=true")
    plainly = ("--skip", "verify", "--skip", "export", "--skip", "contacts")
    [night] = stoker.told(*keeps, "nightly", "--limit", "3", *plainly)[1]
    stories = [stoker.told("why", f"acme/{each}")[1] for each in night["manifest"]["selected"]]
    kept = [story for story in stories if story["corpus"]]
    assert kept
    assert kept[0]["corpus"]["run"] == night["run"]
    _, out, _ = stoker("why", f"acme/{kept[0]['company']}")
    assert "Its page text is stored" in out


def test_a_company_nobody_chose_is_told_why(stoker):
    stoker.set_up("acme")
    _, [plan] = stoker.told("nightly", "--dry-run", "--limit", "1")
    stoker("icp", "set", "--industry", "01", "--years", "1801-1802")
    _, out, _ = stoker("why", plan["selected"][0]["company"])

    assert "Matches the ICP: no, industry" in out
    assert "Not researched yet. It does not match the ICP" in out


def test_a_night_that_is_stopped_says_what_was_done_what_is_left_and_how_to_go_on(tmp_path, capsys):
    with RunningBox(companies=20, dials={"sites.latency": "60s"}) as slow:
        desk = Desk(tmp_path, capsys, slow).set_up("acme")
        words = ("nightly", "--tenant", "acme", "--limit", "3", "--skip", "verify")
        command = [sys.executable, "-m", "stoker.cli.main", "-C", str(tmp_path), *words]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as night:
            while not slow.meter.by_host["sites"]:
                assert night.poll() is None
                time.sleep(0.05)
            night.send_signal(signal.SIGTERM)  # as Ctrl-C; that one a shell may switch off
            _, said = night.communicate()
        [run] = desk.told("runs", "list")[1]

    assert (night.returncode, run["state"]) == (130, "CANCELLED")
    stopped = f"acme: run {run['run']} was stopped with 0 of 3 companies done and 3 left"
    assert stopped in said
    here = f"stoker -C {tmp_path} nightly --tenant acme --skip verify\n"
    assert f"continue today with: {here}" in said


def heeds_ctrl_c():
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have switched it off


def interrupted(tmp_path, slow, *, pauses):
    """Press Ctrl-C in a night that is under way, again after each pause; return how it ended.

    Meanwhile somebody else writes into the store, so that the run takes a while to be closed.
    """
    words = ("nightly", "--tenant", "acme", "--limit", "3")
    command = [sys.executable, "-m", "stoker.cli.main", "-C", str(tmp_path), *words]
    with (
        closing(apsw.Connection(str(tmp_path / "stoker-sandbox.db"))) as store,
        subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, preexec_fn=heeds_ctrl_c
        ) as night,
    ):
        while not slow.meter.by_host["sites"]:
            assert night.poll() is None
            time.sleep(0.05)
        store.set_busy_timeout(10_000)
        store.execute("BEGIN IMMEDIATE")
        night.send_signal(signal.SIGINT)
        for pause in pauses:
            time.sleep(pause)
            night.send_signal(signal.SIGINT)
        time.sleep(0.5)
        store.execute("ROLLBACK")
        _, said = night.communicate()
    return night.returncode, said


@pytest.mark.parametrize("pause", [0.005, 0.1, 0.5])
def test_a_second_ctrl_c_ends_a_night_in_words_and_its_run_is_closed(tmp_path, capsys, pause):
    with RunningBox(companies=20, dials={"sites.latency": "60s"}) as slow:
        desk = Desk(tmp_path, capsys, slow).set_up("acme")
        code, said = interrupted(tmp_path, slow, pauses=[pause])
        [run] = desk.told("runs", "list")[1]

    assert "Traceback" not in said
    assert (code, run["state"]) == (130, "CANCELLED")
    assert said.endswith("stoker: stopped\n")


def test_however_often_ctrl_c_is_pressed_nobody_sees_a_traceback(tmp_path, capsys):
    with RunningBox(companies=20, dials={"sites.latency": "60s"}) as slow:
        Desk(tmp_path, capsys, slow).set_up("acme")
        code, said = interrupted(tmp_path, slow, pauses=[0.002] * 40)

    assert (code, "Traceback" in said) == (130, False)
    assert said.splitlines()[-1].startswith("stoker: stopped")


def test_a_night_whose_process_is_gone_says_when_to_try_again(tmp_path, capsys):
    with RunningBox(companies=20, dials={"sites.latency": "60s"}) as slow:
        desk = Desk(tmp_path, capsys, slow).set_up("acme")
        words = ("nightly", "--tenant", "acme", "--limit", "1")
        command = [sys.executable, "-m", "stoker.cli.main", "-C", str(tmp_path), *words]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as killed:
            while not desk.told("runs", "list")[1]:
                assert killed.poll() is None
            killed.kill()
        code, _, err = desk("nightly", "--tenant", "acme")

    assert (code, len(err.splitlines())) == (6, 1)
    assert "nightly is running for acme already" in err
    told = err.rpartition("try again after ")[2].strip()
    until = datetime.strptime(told, "%Y-%m-%d %H:%M:%S UTC").replace(tzinfo=UTC)
    left = until - system_clock().now()
    assert timedelta(0) < left <= timedelta(seconds=90)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def an_event(kind, now, **known):
    return kind(at=now, tenant=TenantId("acme"), run="r", **known)


BEGAN = datetime(2026, 2, 7, 1, 20, tzinfo=UTC)
UNDER_WAY = {"ended": 1, "under_way": 1, "left": 0, "began_at": BEGAN}


def test_a_terminal_names_the_vendor_a_night_waits_for_and_claims_no_end_nobody_knows(now):
    stream, log = Terminal(), EventRecorder()

    def drawn(event):
        stream.seek(0)
        stream.truncate()
        live(event)
        return stream.getvalue().rpartition("\x1b[K")[2]

    until, acme = now + timedelta(minutes=10), TenantId("acme")
    rests = ConnectorRests(at=now, tenant=acme, connector="zerobounce", until=until)
    how = {**UNDER_WAY, "late": False}
    with ProgressDisplay(stream, otherwise=log, every=0.0) as live:
        planned = {"companies": 2, "deep": 2, "candidates": 5, "taken_over_from": ""}
        live(an_event(NightPlanned, now, deadline=now, **planned))
        asked = drawn(rests)
        waits = {"waits_for": "zerobounce", "waits_until": until}
        waiting = drawn(an_event(NightProgress, now, finish=until, **how, **waits))
        stuck = drawn(an_event(NightProgress, now, finish=None, **how))

    alone = "waiting for zerobounce until 01:40:00 UTC"
    assert asked == f"acme 0/2; {alone}"
    assert waiting == f"acme 0/2, done about 01:40:00 UTC; {alone}"
    assert stuck == "acme 0/2, no company done since 01:20:00 UTC"
    assert log.events == [rests]


def test_a_terminal_shows_one_line_and_passes_warnings_on(now):
    stream, log = Terminal(), EventRecorder()
    with ProgressDisplay(stream, otherwise=log, every=0.0) as live:
        planned = {"companies": 2, "deep": 2, "candidates": 5, "taken_over_from": ""}
        live(an_event(NightPlanned, now, deadline=now, **planned))
        live(an_event(CompanyEnded, now, company="a", state="degraded", reasons=()))
        live(an_event(NightProgress, now, **UNDER_WAY, finish=now, late=False))
        live(an_event(UnitsShed, now, units=1))

    assert "acme 1/2 (1 incomplete), done about" in stream.getvalue()
    assert stream.getvalue().endswith("\r\x1b[K")
    assert [type(event) for event in log.events] == [UnitsShed]


def test_elsewhere_everything_is_passed_on_and_nothing_drawn(now):
    stream, log = io.StringIO(), EventRecorder()
    with ProgressDisplay(stream, otherwise=log) as live:
        live(an_event(CompanyEnded, now, company="a", state="done", reasons=()))

    assert (stream.getvalue(), len(log.events)) == ("", 1)


@pytest.fixture
def now():
    from datetime import UTC, datetime

    return datetime(2026, 2, 7, 1, 30, tzinfo=UTC)


NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def said(capsys):
    """Return what is said of a night that ended so."""

    def telling(state, **manifest):
        run = Run(key=RunKey(NOON, 1), kind=KIND).end(
            state, at=NOON + timedelta(minutes=1), reason="", manifest=Manifest(**manifest)
        )
        print_night(
            NightReport(tenant=TenantId("acme"), run=run, leads=0, min_score=0.5, top_leads=())
        )
        return " ".join(capsys.readouterr().out.split())

    return telling


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ({"selected": 20, "candidates": 52}, "Companies 20 of 52 candidates (20 not started)"),
        (
            {"selected": 20, "candidates": 0},
            "Companies 20 selected by an earlier run (20 not started)",
        ),
        ({"selected": 20}, "Companies 20 selected (20 not started)"),
        ({}, "Companies 20 selected (20 not started)"),  # as older runs that were cut off are kept
    ],
)
def test_a_night_says_whence_its_companies_were_as_far_as_it_is_known(said, counts, words):
    chosen = tuple(f"c{number}" for number in range(20))
    counts = {**counts, "units_waiting": 20}
    assert words in said(RunState.CANCELLED, counts=counts, selected=chosen)


def test_what_may_have_been_spent_is_told_apart_from_what_was(said):
    out = said(
        RunState.FAILED,
        cost={"tavily/calls": 3},
        counts={"unknown openai/calls": 2, "saved a/b": 1},
    )
    assert "Spent tavily 3 calls" in out
    assert "Unknown openai 2 calls may have been spent too; see: stoker holds" in out
    assert "Unknown" not in said(RunState.DONE, cost={"tavily/calls": 3})


@pytest.mark.parametrize("state", list(RunState)[1:])
def test_a_night_that_was_cut_off_says_how_what_it_wrote_is_taken_back(said, state):
    out = said(state, counts={"crm_written": 90, "crm_unknown": 2})
    assert "CRM 90 written, 2 with an unknown outcome" in out
    cut_off = state in (RunState.CANCELLED, RunState.FAILED)
    assert ("stoker crm undo 20300101_120000 --tenant acme" in out) == cut_off
    assert "stoker crm undo" not in said(state)
