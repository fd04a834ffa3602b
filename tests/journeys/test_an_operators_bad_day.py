"""What an operator types on the day a bill looks wrong, on every store that outlives a process."""

import asyncio
import json
import os
from datetime import timedelta

import pytest

import pg
from stoker.app import open_app, read_settings
from stoker.base.types import TenantId
from stoker.budgets.charges import SpendRequest
from stoker.budgets.service import build_reset_rule, list_caps
from stoker.cli.main import main

ACME, BOLT = TenantId("acme"), TenantId("bolt")
SHARED = "connector/tavily/calls/day"
LIMITS = "[tenants.acme]\n[tenants.bolt]\ncaps.tavily_queries = 5\n"


@pytest.fixture(params=["sqlite", "json", "postgres"])
def place(request, tmp_path):
    """A directory whose settings name a store of this kind, made and empty."""
    (tmp_path / "stoker.toml").write_text(f'storage.backend = "{request.param}"\n{LIMITS}')
    if request.param == "postgres":
        _, app = pg.fresh_database(request.getfixturevalue("postgres"))
        (tmp_path / ".env").write_text(f"STOKER_STORAGE_POSTGRES_URL='{app}'\n")
    return tmp_path


def promise(place, tenant, key, calls, *, unsure=False):
    """Promise calls as a worker of its own would; return what the store answered."""

    async def promised():
        own = read_settings(directory=place, config=None, flags={}, environment={})
        async with open_app(own) as app:
            now, money = app.clock.now(), app.backend.tenant(tenant).budgets
            answer = await money.reserve(
                SpendRequest(key=key, connector="tavily", amounts={"calls": calls}),
                caps=await list_caps(app.for_tenant(tenant)),
                reset=build_reset_rule(app.settings.for_tenant(tenant)),
                owner=f"worker {os.getpid()}",
                until=now + timedelta(hours=1),
                now=now,
            )
            if unsure:
                await money.mark_uncertain(key, reason="timed out", now=now)
            return answer

    return asyncio.run(promised())


def test_spending_is_stopped_explained_corrected_and_resumed(place, capsys):
    def stoker(*words, expected=0):
        code = main(["-C", str(place), *words])
        said = capsys.readouterr()
        assert code == expected, said
        return said.out

    stoker("caps", "set", SHARED, "6")
    promise(place, ACME, "a1", 3, unsure=True)
    promise(place, BOLT, "b1", 2)
    assert promise(place, BOLT, "b2", 2).reason == "CAP_SHARED_DAY"

    stopped = json.loads(stoker("stop", "--reason", "the bill looks wrong", "--json"))
    assert [hold["key"] for hold in stopped["in_flight"]] == ["a1", "b1"]
    assert promise(place, ACME, "a2", 1).reason == "STOPPED"

    stoker("holds", "settle", "a1", "calls=4", "--tenant", "acme")
    answer = json.loads(stoker("caps", "list", "--json"))
    full = {(line["tenant"], line["cap"]): line for line in answer["caps"]}
    shared = full["everybody", SHARED]
    assert (shared["used"], shared["reserved"], shared["free"]) == (4, 2, 0)
    assert [stop["reason"] for stop in answer["stops"]] == ["the bill looks wrong"]

    stoker("resume")
    stoker("caps", "raise", SHARED, "8", "--until", "90m")
    assert promise(place, BOLT, "b3", 2).key == "b3"

    assert json.loads(stoker("holds", "--json"))["wrong"] == []
    assert json.loads(stoker("ledger", "verify", "--json"))["ok"]
    kinds = [entry["kind"] for entry in json.loads(stoker("ledger", "export", "--format", "json"))]
    assert kinds == [
        *("RESERVED", "UNCERTAIN", "REFUSED", "SETTLED"),
        *("RESERVED", "REFUSED", "RESERVED"),
    ]
    orders = json.loads(stoker("ledger", "list", "--shared", "--json"))
    assert [(entry["tenant"], entry["kind"]) for entry in reversed(orders)] == [
        ("everybody", kind) for kind in ("CAP_CHANGED", "STOPPED", "RESUMED", "CAP_RAISED")
    ]
