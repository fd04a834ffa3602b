"""`stoker why --flip`, `stoker replay` and `stoker price`, asked the way a person does."""

import asyncio
import json
from dataclasses import replace
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from stoker import app as wiring
from stoker.accounts.model import Company, CompanyId
from stoker.cli.main import main
from stoker.cli.output import Exit
from stoker.files.columns import compute_columns_digest, encode_columns
from stoker.pulls.store import load_plan, to_input_columns

IDS = [CompanyId(f"20000000{n}A") for n in range(1, 9)]


def parts_of(plan):
    """Return a plan's parts as they are stored."""
    inputs = to_input_columns(plan.inputs)
    return encode_columns(plan.decisions.to_columns()) + encode_columns(inputs)


def with_app(home, work):
    async def opened():
        settings = wiring.read_settings(directory=home, config=None, flags={})
        async with wiring.open_app(settings) as app:
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
        await store.accounts.save_candidates(IDS, rule="default")

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
    assert "Not selected" in out
    assert "more unit" in out
    assert "value / cutoff" in out.lower()
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
    assert "Not in the plan" in out
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
    assert "fewer account" in out
    assert "up to date" in out


SINGAPORE = ZoneInfo("Asia/Singapore")
PLENTY = ("--set", "caps.pull_units_per_day=60")
FEW_CALLS = ("--set", "caps.tavily_queries=3")
SLOW = ("--set", "tavily.burst=1", "--set", "tavily.calls=1", "--set", "tavily.per_s=2400")


@pytest.fixture
def with_lusha(stoker):
    (stoker.home / ".env").write_text("LUSHA_API_KEY=not-a-key\n")
    return stoker


@pytest.fixture
def with_tavily(stoker):
    (stoker.home / ".env").write_text("TAVILY_API_KEY=not-a-key\n")
    return stoker


def told_why(stoker, *words):
    """Plan, and return what `why --flip` tells of every account; the plan is made again alike."""
    assert stoker(*words, "pulls", "plan")[0] == 0
    assert stoker("replay", "latest")[0] == 0
    asked = (stoker("why", f"acme/{each}", "--flip", "--json") for each in IDS)
    return [json.loads(out)["pull"] for _, out, _ in asked]


def test_a_vendors_cap_says_how_many_looks_are_deep_and_who_is_looked_at(with_tavily):
    assert with_tavily(*PLENTY, "pulls", "plan")[0] == 0
    code, out, _ = with_tavily("replay", "latest", "--cap", "tavily=3", "--json")
    told = json.loads(out)
    before, after = told["as_it_was"], told["changed"]
    assert (code, told["gained"], len(told["lost"])) == (0, [], 6)  # at 1.4 calls a look
    assert (before["deep"], after["accounts"], after["deep"]) == (8, 2, 2)
    assert after["calls"]["tavily"] == pytest.approx(2.8)
    assert after["freshness"] < before["freshness"]
    assert "of them deep" in with_tavily("replay", "latest", "--cap", "tavily=3")[1]


def test_whom_a_connectors_cap_refuses_is_told_what_was_left_and_when_it_begins_anew(with_tavily):
    told = told_why(with_tavily, *PLENTY, *FEW_CALLS)
    refused = [each for each in told if each["why"] == "CAP_CONNECTOR_DAY"]
    assert (len(refused), [each["depth"] for each in told].count("DEEP")) == (6, 2)
    for each in refused:
        numbers = each["hindrance"]
        assert (numbers["cap"], numbers["had"]) == ("tenant_connector/tavily/calls/day", 3)
        assert (numbers["limit"], numbers["needed"], numbers["looks"]) == (3, 1.4, 2)
        until = datetime.fromisoformat(numbers["until"])
        assert f"{until.astimezone(SINGAPORE):%H:%M}" == "00:00"
        assert timedelta(0) < until - datetime.fromisoformat(each["at"]) <= timedelta(days=1)
        assert (
            f"Tavily calls per day: 3 of 3 left until {until:%Y-%m-%d %H:%M} UTC, enough for "
            "2 deep lookups; 8 accounts needed it" in each["sentence"]
        )
        assert each["flip"]["raises"][0]["deep_looks"] is True
    assert sorted(each["flip"]["raises"][0]["units"] for each in refused) == [1, 2, 3, 4, 5, 6]


def test_a_stop_of_a_connector_that_deep_looks_need_is_told_with_its_reason(with_lusha):
    assert with_lusha("stop", "--connector", "lusha", "--reason", "the bill")[0] == 0
    told = told_why(with_lusha, *PLENTY)
    assert {(each["why"], each["depth"]) for each in told} == {("PAUSED", "NOT")}
    assert all("lusha is stopped: the bill" in each["sentence"] for each in told)
    assert {each["flip"]["sentence"][:9] for each in told} == {"No change"}
    out = with_lusha(*PLENTY, "quote")[1]
    assert "PAUSED: lusha is stopped: the bill" in out
    assert with_lusha("resume", "--connector", "lusha")[0] == 0
    assert {each["why"] for each in told_why(with_lusha, *PLENTY)} == {"WORTH"}


def test_the_price_is_that_of_days_on_which_nothing_stands_in_the_way(with_lusha):
    before = json.loads(with_lusha("price", "--json")[1])
    assert with_lusha("stop", "--connector", "lusha")[0] == 0
    assert [each["looks"] for each in before["curve"]] == [
        each["looks"] for each in json.loads(with_lusha("price", "--json")[1])["curve"]
    ]


def test_decisions_that_come_out_otherwise_now_are_told_one_by_one(planned):
    """As if an earlier version of Stoker had chosen another account."""

    async def forge(_, store):
        found = await load_plan(store, planned.run)
        depth = found.decisions.depth.copy()
        depth[0] = 2 if depth[0] != 2 else 0
        other = replace(found.decisions, depth=depth)
        parts = parts_of(replace(found, decisions=other))
        header = {
            **found.record.header,
            "digest": compute_columns_digest(other.to_columns()),
        }
        await store.plans.delete_plans([planned.run])
        await store.plans.insert_plan(replace(found.record, header=header), parts)

    with_app(planned.home, forge)
    code, out, _ = planned("replay", planned.run)
    assert code == Exit.PROBLEMS
    assert "1 differ" in out
    assert "The ledger has other decisions" in out
    assert IDS[0] in out
    told = json.loads(planned("replay", planned.run, "--json")[1])
    assert [each["account"] for each in told["differs"]] == [IDS[0]]


@pytest.mark.parametrize("what", ["decisions", "header", "part"])
def test_a_damaged_plan_explains_nothing(planned, what):
    async def damage(_, store):
        found = await load_plan(store, planned.run)
        header, parts = dict(found.record.header), parts_of(found)
        if what == "decisions":
            why = found.decisions.why.copy()
            why[0] ^= 1
            parts[0] = encode_columns(replace(found.decisions, why=why).to_columns())[0]
        elif what == "header":
            header.pop("input_parts")
        else:
            parts = parts[:-1]
        await store.plans.delete_plans([planned.run])
        await store.plans.insert_plan(replace(found.record, header=header), parts)

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
    assert "10 % more budget" in out
    assert "Half the budget" in out
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
        (("replay", "latest", "--cap", "nobody=9"), "unknown cap 'nobody'"),
        (("replay", "latest", "--cap", "lusha=9"), "lusha is off"),
        (("replay", "latest", "--tenant", "umbrella"), "umbrella"),
        (("price", "umbrella"), "umbrella"),
        (("why", "acme/absent", "--flip"), "has no company"),
    ],
)
def test_what_cannot_be_is_one_clear_line(planned, words, sentence):
    code, out, err = planned(*words)
    assert code == Exit.CONFIG
    assert sentence in err
    assert (out, len(err.strip().splitlines())) == ("", 1)
