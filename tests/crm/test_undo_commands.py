"""`stoker undo` and `stoker export leads`, asked the way a person does."""

import asyncio
import csv
import io
import json
from dataclasses import replace
from datetime import timedelta

import pytest

from kit.crm_office import dossier
from running_box import RunningBox
from stoker.accounts.facts import Fact, FactField, Method
from stoker.accounts.model import Contact, EmailStatus
from stoker.app import open_app, read_settings
from stoker.base.types import Depth, TenantId
from stoker.cli.main import main
from stoker.enrichment.model import WorkItem, WorkState
from stoker.nightly.setup import build_exporter
from stoker.runs.model import Manifest, Run, RunKey, RunState, parse_run_name
from stoker.runs.service import RunHandle

ACME = TenantId("acme")
FIRST, SECOND, GOING = "20261116_180000", "20261117_180000", "20261118_180000"
EVIL = '=HYPERLINK("http://x.test","win")'


@pytest.fixture
def box():
    with RunningBox(companies=5) as running:
        yield running


@pytest.fixture
def ask(tmp_path, box):
    """Do something with the opened app."""
    (tmp_path / "stoker.toml").write_text(
        f'sandbox.address = "{box.box.address}"\n'
        "odoo.calls = 100000\nodoo.burst = 1000\n[tenants.acme]\n[tenants.bolt]\n"
    )

    async def opening(work):
        own = read_settings(directory=tmp_path, config=None, flags={}, environment={})
        async with open_app(own) as app:
            return await work(app)

    return lambda work: asyncio.run(opening(work))


@pytest.fixture
def stoker(tmp_path, capsys, ask):
    def asking(*words):
        code = main(["-C", str(tmp_path), *words])
        said = capsys.readouterr()
        return code, said.out, said.err

    return asking


def night(app, name, *known, ended=True):
    """Let a night find this out and put it into the CRM."""

    async def happen():
        store, at = app.backend.tenant(ACME), parse_run_name(name)
        key = RunKey(at, 1)
        run = Run(key=key, kind="nightly", manifest=Manifest())
        await store.runs.insert_run(run)
        await store.accounts.upsert_companies([each.company for each in known], now=at)
        units = [
            WorkItem(company=each.company.id, rank=place, depth=Depth.DEEP)
            for place, each in enumerate(known)
        ]
        await store.work_items.insert_items(name, units)
        for unit, each in zip(units, known, strict=True):
            done = replace(unit, state=WorkState.DONE, ended_at=at)
            await store.work_items.finish_item(name, done, replace(each, looked_at=at, run=name))
        exports = build_exporter(app.for_tenant(ACME))
        handle = RunHandle(
            key=key, kind="nightly", store=store, clock=app.clock, observer=app.observer
        )
        told = await exports(handle).flush()
        assert not told.reasons
        if ended:
            over = run.end(RunState.DONE, at=at + timedelta(minutes=1))
            await store.runs.finish_run(over)

    return happen()


def names(box, model="res.partner"):
    headers = {"Authorization": "bearer odoo-acme-human-mei", "X-Odoo-Database": "acme"}
    answer = box.ask(
        "odoo.test", "POST", f"/json/2/{model}/search_read", {"domain": []}, headers=headers
    )
    return {each["name"] for each in answer.parse_json()}


def test_a_run_is_taken_back_and_twice_is_once(stoker, ask, box):
    ask(lambda app: night(app, FIRST, dossier()))
    ask(lambda app: night(app, SECOND, dossier("Wrong", phone="2")))
    assert names(box) == {"Wrong", "Mei"}

    code, out, _ = stoker("undo", SECOND, "--tenant", "acme", "--dry-run")
    assert (code, names(box)) == (0, {"Wrong", "Mei"})
    assert "3 would be restored" in out

    code, out, _ = stoker("undo", SECOND, "--tenant", "acme")
    assert (code, names(box)) == (0, {"Acme", "Mei"})
    assert "3 restored to their earlier values" in out

    code, out, _ = stoker("undo", SECOND, "--tenant", "acme", "--json")
    told = json.loads(out)
    assert (code, told["same"], told["restored"], told["left"]) == (0, 3, [], {})

    code, out, _ = stoker("undo", FIRST, "--tenant", "acme")
    assert (code, names(box), names(box, "crm.lead")) == (0, set(), set())
    assert "3 archived" in out


def test_the_latest_run_that_wrote_anything_can_be_taken_back_by_that_name(stoker, ask, box):
    ask(lambda app: night(app, FIRST, dossier()))
    ask(lambda app: night(app, SECOND))  # found nothing, wrote nothing
    code, out, _ = stoker("undo", "latest", "--tenant", "acme", "--json")

    assert (code, json.loads(out)["run"], names(box)) == (0, FIRST, set())


def test_what_is_left_is_told_with_its_reason(stoker, ask):
    ask(lambda app: night(app, FIRST, dossier()))
    ask(lambda app: night(app, SECOND, dossier("Newer")))

    code, out, _ = stoker("undo", FIRST, "--tenant", "acme")

    assert code == 0
    assert f"run {SECOND} has written it since; undo that one first" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([FIRST, "--tenant", "acme"], "has no run"),
        (["yesterday", "--tenant", "acme"], "does not name a run"),
        ([FIRST], "choose a tenant with --tenant"),
        (["latest", "--tenant", "acme"], "wrote anything into its CRM"),
    ],
)
def test_a_run_there_is_not_is_a_clear_error(stoker, words, said):
    code, out, err = stoker("undo", *words)
    assert (code, out) == (2, "")
    assert said in err


def test_a_run_that_is_going_on_is_not_taken_back(stoker, ask, box):
    ask(lambda app: night(app, GOING, dossier(), ended=False))

    code, _, err = stoker("undo", GOING, "--tenant", "acme")

    assert (code, names(box)) == (2, {"Acme", "Mei"})
    assert "has not ended" in err


def test_while_the_crm_is_down_undo_says_to_come_back_later(stoker, ask, box):
    ask(lambda app: night(app, FIRST, dossier()))
    box.faults.set_value("odoo.fault.unavailable", 1.0)
    code, _, err = stoker("undo", FIRST, "--tenant", "acme")
    assert code == 6, err

    box.faults.set_value("odoo.fault.unavailable", 0)
    code, _, _ = stoker("undo", FIRST, "--tenant", "acme")
    assert (code, names(box)) == (0, set())


def a_lead():
    trap = Contact(
        name="Trap", email="trap@acme.test", verdict=EmailStatus.RISKY, source="s", confidence=1.0
    )
    known = dossier(EVIL, website="https://acme.test")
    found = Fact.build(
        FactField.EMPLOYEES,
        "20-50",
        source="https://acme.test/",
        how=Method.JSON_LD,
        confidence=0.8,
    )
    return replace(known, contacts=(*known.contacts, trap), facts=(found,))


def test_leads_are_written_with_reason_contacts_verdicts_and_sources(stoker, ask):
    ask(lambda app: night(app, FIRST, a_lead(), dossier("Low", uen="200900009Z", score=0.2)))

    code, out, err = stoker("export", "leads", "--format", "json", "--tenant", "acme")
    assert code == 0, err
    (lead,) = json.loads(out)

    assert (lead["company"], lead["score"], lead["rationale"]) == ("200900001A", 0.9, "Fits.")
    assert lead["contact_email"] == "mei@200900001a.test"
    assert [each["verdict"] for each in lead["contacts"]] == ["valid", "risky"]
    assert lead["sources"]["employees"] == {
        "value": "20-50",
        "source": "https://acme.test/",
        "how": "json_ld",
        "confidence": 0.8,
    }

    code, out, _ = stoker("export", "leads", "--format", "json", "--least", "0")
    assert len(json.loads(out)) == 2
    code, out, _ = stoker("export", "leads", "--format", "json", "--run", SECOND)
    assert json.loads(out) == []


def test_in_csv_nothing_is_a_formula_and_a_file_is_whole(stoker, ask, tmp_path):
    ask(lambda app: night(app, FIRST, a_lead()))

    code, out, _ = stoker("export", "leads", "--format", "csv", "--tenant", "acme")
    (lead,) = csv.DictReader(io.StringIO(out))
    assert lead["name"] == f"'{EVIL}"
    assert lead["score"] == "0.9"

    words = ["export", "leads", "--format", "csv", "--out", "leads.csv", "--json"]
    code, out, _ = stoker(*words)
    assert (code, json.loads(out)["leads"]) == (0, 1)
    assert (tmp_path / "leads.csv").read_text(encoding="utf-8").count("\n") == 2
    code, _, err = stoker(*words)
    assert (code, "already there" in err or "--force" in err) == (2, True)


def test_one_tenants_leads_are_nobody_elses(stoker, ask):
    ask(lambda app: night(app, FIRST, a_lead()))
    code, out, _ = stoker("export", "leads", "--format", "json", "--tenant", "bolt")
    assert (code, json.loads(out)) == (0, [])
