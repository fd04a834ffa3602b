"""A night in one process is stopped from another, and done again: what it paid for is paid once."""

import subprocess
import sys
import threading
from datetime import timedelta

import pytest

import pg
from night_desk import Desk
from running_box import RunningBox
from stoker.sandbox.server import HANDLERS as HOSTS

VENDORS = ("tavily", "openai", "lusha", "zerobounce")
PATIENCE = 120  # seconds
NIGHT = ("nightly", "--tenant", "acme", "--limit", "16")


class HeldSearches:
    """A search vendor that charges at once, and keeps all but its first answers back."""

    def __init__(self, *, first):
        self._first, self._asked = first, 0
        self.some_are_held, self.may_go = threading.Event(), threading.Event()

    def __call__(self, *given):
        handler = HOSTS["tavily.test"](*given)

        def handled(asked):
            told = handler(asked)
            if asked.path != "/search":
                return told  # pages are read for companies whose searches were answered
            self._asked += 1
            if self._asked <= self._first or self.may_go.is_set():
                return told
            self.some_are_held.set()
            return told.replace_fields(
                stream=self._answer(told.body), drip=timedelta(milliseconds=20)
            )

        return handled

    def _answer(self, body):
        while not self.may_go.is_set():
            yield b" "  # which JSON may begin with
        yield body


def internet(**hosts):
    dials = {"zerobounce.calls": 1_000_000}
    return RunningBox(companies=60, dials=dials, vendors={**HOSTS, **hosts})


def charged(box):
    return {vendor: dict(box.box.charges.get(vendor, {})) for vendor in VENDORS}


def known(desk):
    """What is known of each company, apart from when and by which run it was found out."""
    found = desk.told("leads", "--min", "0")[1]
    return {lead["company"]: (lead["score"], lead["rationale"]) for lead in found}


@pytest.fixture(params=["sqlite", "postgres", "json"])
def storage(request):
    """Settings, as the environment has them, that name a store of each kind."""
    named = {"STOKER_STORAGE_BACKEND": request.param}
    if request.param == "postgres":
        _, app_url = pg.fresh_database(request.getfixturevalue("postgres"))
        named["STOKER_STORAGE_POSTGRES_URL"] = app_url
    return named


def undisturbed(home, capsys):
    """What such a night costs and finds when nobody stops it."""
    home.mkdir()
    with internet() as box:
        desk = Desk(home, capsys, box).set_up("acme")
        code, [run] = desk.told(*NIGHT)
        assert (code, run["state"]) == (0, "DONE"), run["manifest"]["reasons"]
        return charged(box), known(desk)


def stopped(desk, searches, home):
    """Begin a night in another process, stop it from here once it has paid; return its exit code.

    Searches are under way until it has noticed.
    """
    command = [sys.executable, "-m", "stoker.cli.main", "-C", str(home)]
    wishes = ("scheduling.company_concurrency=2", "logging.format=json", "logging.level=warning")
    settings = [word for wish in wishes for word in ("--set", wish)]
    with subprocess.Popen(
        [*command, *settings, *NIGHT, "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as night:
        assert searches.some_are_held.wait(PATIENCE)
        [run] = desk.told("runs", "list")[1]
        code, told = desk.told("runs", "cancel", run["run"], "--tenant", "acme")
        assert (code, told["state"], told["process_gone"]) == (0, "RUNNING", False)
        assert desk.told("runs", "cancel", "latest")[1]["asked_at"] == told["asked_at"]
        assert desk("runs", "rerun", run["run"])[0] == 6
        assert any("RunAskedToStop" in line for line in night.stderr)
        searches.may_go.set()
        night.communicate()
    return night.returncode, told


def test_a_night_stopped_from_another_process_and_done_again_pays_once(
    tmp_path, capsys, monkeypatch, storage
):
    cost, found = undisturbed(tmp_path / "undisturbed", capsys)
    for name, value in storage.items():
        monkeypatch.setenv(name, value)
    home = tmp_path / "stopped"
    home.mkdir()
    searches = HeldSearches(first=2)
    with internet(**{"tavily.test": searches}) as box:
        desk = Desk(home, capsys, box).set_up("acme")

        code, asked = stopped(desk, searches, home)
        run = desk.told("runs", "show", asked["run"])[1]
        manifest = run["manifest"]
        assert (code, run["state"]) == (5, "CANCELLED")
        assert asked["asked_by"] in run["reason"]
        assert run["cancel_request"] == {"by": asked["asked_by"], "at": asked["asked_at"]}
        assert len(manifest["selected"]) == 16
        assert 0 < len(manifest["remaining"]) < 16
        assert manifest["counts"]["units_waiting"] == len(manifest["remaining"])
        assert "units_taken" not in manifest["counts"]
        assert desk.told("holds")[1]["holds"] == []
        assert desk("ledger", "verify")[0] == 0

        code, [again] = desk.told("runs", "rerun", asked["run"], "--tenant", "acme")
        assert (code, again["state"]) == (0, "DONE"), again["manifest"]["reasons"]
        assert again["manifest"]["selected"] == manifest["remaining"]
        assert (charged(box), known(desk)) == (cost, found)
        assert desk.told("holds")[1]["holds"] == []
        assert desk("ledger", "verify")[0] == 0
