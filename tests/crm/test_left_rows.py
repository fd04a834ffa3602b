"""Rows that people decide about, shown with their reasons by `runs show` and `why`."""

import asyncio
import json
from dataclasses import replace
from datetime import timedelta

import pytest

from kit.crm_office import ask_as_person, dossier
from running_box import RunningBox
from stoker.app import open_app, read_settings
from stoker.base.types import Depth, TenantId
from stoker.cli.main import main
from stoker.crm.model import PARTNER
from stoker.enrichment.model import WorkItem, WorkState
from stoker.nightly.setup import build_exporter
from stoker.runs.model import Manifest, Run, RunKey, RunState, parse_run_name
from stoker.runs.service import RunHandle

ACME, RUN, NUMBER = TenantId("acme"), "20261116_180000", "200900001A"


@pytest.fixture
def box():
    with RunningBox(companies=5) as running:
        yield running


async def export(app, known):
    """Let a run find this out and send it to the CRM."""
    store, at = app.backend.tenant(ACME), parse_run_name(RUN)
    run = Run(key=RunKey(at, 1), kind="nightly", manifest=Manifest())
    await store.runs.insert_run(run)
    await store.accounts.upsert_companies([known.company], now=at)
    item = WorkItem(company=known.company.id, rank=0, depth=Depth.DEEP)
    await store.work_items.insert_items(RUN, [item])
    done = replace(item, state=WorkState.DONE, ended_at=at)
    await store.work_items.finish_item(RUN, done, replace(known, looked_at=at, run=RUN))
    handle = RunHandle(
        key=run.key, kind="nightly", store=store, clock=app.clock, observer=app.observer
    )
    await build_exporter(app.for_tenant(ACME))(handle).flush()
    await store.runs.finish_run(run.end(RunState.DONE, at=at + timedelta(minutes=1)))


@pytest.fixture
def stoker(tmp_path, capsys, box):
    """Run commands after an export met a company of the same name with another website."""
    (tmp_path / "stoker.toml").write_text(
        f'sandbox.address = "{box.box.address}"\n'
        "odoo.calls = 100000\nodoo.burst = 1000\n[tenants.acme]\n"
    )
    theirs = {"name": "Acme", "is_company": True, "website": "https://elsewhere.test"}
    ask_as_person(box, "acme", PARTNER, "create", vals_list=[theirs])

    async def happen():
        own = read_settings(directory=tmp_path, config=None, flags={}, environment={})
        async with open_app(own) as app:
            await export(app, dossier())

    asyncio.run(happen())

    def run(*words):
        code = main(["-C", str(tmp_path), *words])
        return code, capsys.readouterr().out

    return run


COMMANDS = [("runs", "show", RUN, "--tenant", "acme"), ("why", f"acme/{NUMBER}")]


@pytest.mark.parametrize("words", COMMANDS, ids=["runs show", "why"])
def test_rows_left_to_people_are_listed_with_their_reasons(stoker, words):
    code, out = stoker(*words)

    assert code == 0
    shown = out.partition("Not written into the CRM:")[2]
    assert f"stoker.acme_company_{NUMBER}" in shown
    assert "another website" in " ".join(shown.split())

    code, out = stoker(*words, "--json")
    left = json.loads(out)["crm_left"]
    assert (code, len(left)) == (0, 3)
    assert "another website" in left[f"stoker.acme_company_{NUMBER}"]
    assert left[f"stoker.acme_lead_{NUMBER}"]
