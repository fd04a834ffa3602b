"""`stoker why --flip`, `stoker replay` and `stoker price`, asked the way a person does."""

import asyncio
import json
from dataclasses import replace

import pytest

from stoker import wiring
from stoker.cli.main import main
from stoker.cli.output import Exit
from stoker.core.companies import Company, CompanyId
from stoker.core.decisions import decision_columns, digest, kept, packed
from stoker.core.plan_inputs import input_columns
from stoker.engine.kept_plans import kept_plan

IDS = [CompanyId(f"20000000{n}A") for n in range(1, 9)]


def with_app(home, work):
    async def opened():
        settings = wiring.settings(directory=home, config=None, flags={})
        async with wiring.opened(settings) as app:
            return await work(app, app.backend.tenant("acme"))

    return asyncio.run(opened())


@pytest.fixture
def stoker(tmp_path, capsys):
    (tmp_path / "stoker.toml").write_text("[tenants.acme]\n[caps]\npull_units_per_day = 7\n")
    (tmp_path / "rows.csv").write_text(
        "account,at,strength,source\n200000001A,2026-11-15T08:00:00Z,0.9,webinar\n"
    )

    async def fill(app, store):
        companies = [Company(id=each, name=f"Company {each}") for each in IDS]
        await store.accounts.upsert_companies(companies, now=app.clock.now())
        await store.accounts.put_candidates(IDS, rule="default")

    with_app(tmp_path, fill)

    def asking(*words):
        code = main(["-C", str(tmp_path), "--set", "logging.level=error", *words])
        said = capsys.readouterr()
        assert "Traceback" not in said.err
        return code, said.out, said.err

    asking.home = tmp_path
    assert asking("signals", "import", "rows.csv")[0] == 0
    assert asking("heat", "sweep")[0] == 0
    return asking


@pytest.fixture
def planned(stoker):
    code, out, _ = stoker("pulls", "plan", "--json")
    assert code == 0
    stoker.run = json.loads(out)[0]["run"]
    return stoker


def test_without_a_plan_why_says_nothing_of_pulls_and_replay_says_what_to_do(stoker):
    code, out, _ = stoker("why", "acme/200000001A")
    assert (code, "Pulls:" in out) == (0, False)
    code, _, err = stoker("replay", "latest")
    assert code == Exit.CONFIG
    assert "stoker pulls plan" in err


def test_why_says_one_sentence_and_five_numbers_and_what_would_flip_a_no(planned):
    told = {}
    for account in IDS:
        code, out, _ = planned("why", f"acme/{account}", "--flip", "--json")
        assert code == 0
        told[account] = json.loads(out)["pull"]
    assert {each["run"] for each in told.values()} == {planned.run}
    chosen = [each for each in told.values() if each["depth"] != "NOT"]
    refused = [each for each in told.values() if each["depth"] == "NOT"]
    assert chosen
    assert refused
    for each in told.values():
        assert each["why"] == each["kept_why"]
        assert each["sentence"]
        assert {"stale_chance", "missed_changes", "days_between_changes"} <= each.keys()
        assert {"worth_over_price", "due_every_days"} <= each.keys()
    assert all("nothing to flip" in each["flip"]["sentence"] for each in chosen)
    assert all(each["flip"]["raises"] for each in refused)

    account = next(name for name, each in told.items() if each["depth"] == "NOT")
    code, out, _ = planned("why", f"acme/{account}", "--flip")
    assert "Not looked at" in out
    assert "more unit" in out
    assert "worth over price" in out.lower()
    assert "It would be" not in planned("why", f"acme/{account}")[1]


def test_the_units_that_why_names_do_flip_it_when_the_plan_is_made_again(planned):
    for account in IDS:
        pull = json.loads(planned("why", f"acme/{account}", "--flip", "--json")[1])["pull"]
        if pull["depth"] == "NOT":
            more = pull["flip"]["raises"][0]["units"]
            cap = f"pull_units={7 + more}"
            again = json.loads(planned("replay", planned.run, "--cap", cap, "--json")[1])
            assert account in again["gained"]
            if more > 1:
                less = f"pull_units={7 + more - 1}"
                again = json.loads(planned("replay", planned.run, "--cap", less, "--json")[1])
                assert account not in again["gained"]


def test_an_account_that_came_after_the_plan_is_said_to_be_new(planned):
    new = Company(id=CompanyId("200000009A"), name="Newcomer")

    async def add(app, store):
        await store.accounts.upsert_companies([new], now=app.clock.now())

    with_app(planned.home, add)
    code, out, _ = planned("why", "acme/200000009A")
    assert code == 0
    assert "did not know it" in out
    pull = json.loads(planned("why", "acme/200000009A", "--json")[1])["pull"]
    assert pull["known"] is False


def test_a_plan_made_again_is_the_same_and_a_smaller_cap_costs_accounts_and_freshness(planned):
    for which in (planned.run, "latest"):
        code, out, _ = planned("replay", which)
        assert code == 0
        assert "the same decisions, byte for byte" in out
    code, out, _ = planned("replay", planned.run, "--cap", "pull_units=2", "--json")
    told = json.loads(out)
    assert (code, told["same"], told["gained"]) == (0, True, [])
    assert told["ledger_agrees"] is True
    assert planned.run in planned("ledger", "list", "--kind", "plan")[1]
    assert told["lost"]
    assert told["changed"]["units"] <= 2 < told["as_it_was"]["units"]
    assert told["changed"]["freshness"] < told["as_it_was"]["freshness"]
    code, out, _ = planned("replay", planned.run, "--cap", "crawl=0", "--policy", "tiers")
    assert "accounts fewer" in out
    assert "up to date" in out


def test_a_vendors_cap_leaves_the_accounts_and_takes_from_deep_looks(stoker):
    (stoker.home / ".env").write_text("LUSHA_API_KEY=not-a-key\n")
    plenty = ("--set", "caps.pull_units_per_day=60")
    assert stoker(*plenty, "pulls", "plan")[0] == 0
    code, out, _ = stoker("replay", "latest", "--cap", "lusha=2", "--json")
    told = json.loads(out)
    before, after = told["as_it_was"], told["changed"]
    assert (code, told["gained"], told["lost"]) == (0, [], [])
    assert (before["accounts"], before["deep"], after["accounts"]) == (8, 8, 8)
    assert 0 < after["deep"] < 8
    assert after["calls"]["lusha"] == 2
    assert after["refused"]["lusha"] == pytest.approx(before["calls"]["lusha"] - 2)
    assert after["freshness"] < before["freshness"]
    assert "deep looks go on without it" in stoker("replay", "latest", "--cap", "lusha=2")[1]


def test_decisions_that_come_out_otherwise_now_are_told_one_by_one(planned):
    """As if an earlier version of Stoker had chosen another account."""

    async def forge(_, store):
        found = await kept_plan(store, planned.run)
        depth = found.decisions.depth.copy()
        depth[0] = 2 if depth[0] != 2 else 0
        other = replace(found.decisions, depth=depth)
        parts = kept(other) + packed(input_columns(found.inputs))
        header = {**found.record.header, "digest": digest(decision_columns(other))}
        await store.attention.drop_plans([planned.run])
        await store.attention.keep_plan(replace(found.record, header=header), parts)

    with_app(planned.home, forge)
    code, out, _ = planned("replay", planned.run)
    assert code == Exit.PROBLEMS
    assert "1 differ" in out
    assert "The ledger tells of other decisions" in out
    assert IDS[0] in out
    told = json.loads(planned("replay", planned.run, "--json")[1])
    assert [each["account"] for each in told["differs"]] == [IDS[0]]


@pytest.mark.parametrize("what", ["decisions", "header", "part"])
def test_a_damaged_plan_explains_nothing(planned, what):
    async def damage(_, store):
        found = await kept_plan(store, planned.run)
        header, parts = dict(found.record.header), []
        parts = kept(found.decisions) + packed(input_columns(found.inputs))
        if what == "decisions":
            why = found.decisions.why.copy()
            why[0] ^= 1
            parts[0] = kept(replace(found.decisions, why=why))[0]
        elif what == "header":
            header.pop("input_parts")
        else:
            parts = parts[:-1]
        await store.attention.drop_plans([planned.run])
        await store.attention.keep_plan(replace(found.record, header=header), parts)

    with_app(planned.home, damage)
    for words in (("replay", planned.run), ("why", f"acme/{IDS[0]}")):
        code, out, err = planned(*words)
        assert code == Exit.FAILED
        assert out == ""
        assert len(err.strip().splitlines()) == 1


def test_the_price_says_what_a_tenth_more_buys_and_draws_the_curve(stoker):
    code, out, _ = stoker("price", "acme", "--picture", str(stoker.home / "curve.png"))
    assert code == 0
    assert "7 pull units a day" in out
    assert "10 % more units" in out
    assert "with half the budget" in out
    assert (stoker.home / "curve.png").read_bytes().startswith(b"\x89PNG")
    told = json.loads(stoker("price", "--json")[1])
    fresh = [each["freshness"] for each in told["curve"]]
    assert fresh == sorted(fresh)
    assert 0 < fresh[0] < fresh[-1] <= 1
    prices = [each["price"] for each in told["curve"]]
    assert prices == sorted(prices, reverse=True)
    assert all(each["gap"] < 0.05 for each in told["curve"])


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("replay", "20200101_000000"), "no plan of run"),
        (("replay", "latest", "--cap", "lusha"), "NAME=NUMBER"),
        (("replay", "latest", "--cap", "lusha=-1"), "NAME=NUMBER"),
        (("replay", "latest", "--cap", "lusha=9", "--cap", "lusha=8"), "twice"),
        (("replay", "latest", "--cap", "nobody=9"), "there is no cap of 'nobody'"),
        (("replay", "latest", "--cap", "lusha=9"), "lusha is off"),
        (("replay", "latest", "--tenant", "umbrella"), "umbrella"),
        (("price", "umbrella"), "umbrella"),
        (("why", "acme/absent", "--flip"), "knows no company"),
    ],
)
def test_what_cannot_be_is_one_clear_line(planned, words, sentence):
    code, out, err = planned(*words)
    assert code == Exit.CONFIG
    assert sentence in err
    assert (out, len(err.strip().splitlines())) == ("", 1)
