"""`stoker heat` and `stoker signals`, asked the way a person does."""

import asyncio
import json

import pytest

from stoker import app as wiring
from stoker.accounts.model import Company, CompanyId
from stoker.cli.main import main
from stoker.cli.output import Exit

ROWS = (
    "account,at,strength,source\n"
    "200000001A,2026-11-15T08:00:00Z,0.9,webinar\n"
    "200000001A,2026-11-15T09:00:00Z,1,=cmd()\n"
    "nobody,2026-11-15T09:00:00Z,1,x\n"
)


def fill_tenant(directory, tenant):
    async def fill():
        settings = wiring.read_settings(directory=directory, config=None, flags={})
        async with wiring.open_app(settings) as app:
            accounts = app.backend.tenant(tenant).accounts
            ids = [CompanyId(f"20000000{n}A") for n in range(1, 4)]
            companies = [Company(id=each, name=f"Company {each}") for each in ids]
            await accounts.upsert_companies(companies, now=app.clock.now())
            await accounts.save_candidates(ids, rule="default")

    asyncio.run(fill())


@pytest.fixture
def home(tmp_path):
    (tmp_path / "stoker.toml").write_text("[tenants.acme]\n")
    (tmp_path / "rows.csv").write_text(ROWS)
    fill_tenant(tmp_path, "acme")
    return tmp_path


@pytest.fixture
def stoker(home, capsys):
    def asking(*words):
        code = main(["-C", str(home), "--set", "logging.level=error", *words])
        said = capsys.readouterr()
        assert "Traceback" not in said.err
        return code, said.out, said.err

    return asking


def test_signals_are_read_once_and_move_an_account_to_the_top(stoker):
    code, out, _ = stoker("signals", "import", "rows.csv")
    assert code == Exit.PROBLEMS
    assert "2 new signals for 1 account of acme; 0 already known" in out
    assert "no company 'nobody' is known to acme" in out
    assert (
        "0 new signals for 0 accounts of acme; 2 already known"
        in stoker("signals", "import", "rows.csv")[1]
    )

    code, out, _ = stoker("heat", "sweep")
    assert (code, "acme" in out) == (0, True)
    code, out, _ = stoker("heat", "top", "--json")
    top = json.loads(out)
    assert top[0]["account_id"] == "200000001A"
    assert len(top) == 3
    assert top[0]["factors"]["signal_recency"] > 0
    code, out, _ = stoker("heat", "show", "acme/200000001A")
    assert "webinar" in out
    assert "IMPORTED" in out


def test_the_limit_of_top_counts_accounts_of_all_tenants_together(stoker, home):
    (home / "stoker.toml").write_text("[tenants.acme]\n[tenants.umbrella]\n")
    fill_tenant(home, "umbrella")
    assert stoker("heat", "sweep")[0] == 0
    assert len(json.loads(stoker("heat", "top", "--json")[1])) == 6
    assert len(json.loads(stoker("heat", "top", "--limit", "2", "--json")[1])) == 2


def test_json_lines_are_read_too_and_a_broken_line_costs_itself(stoker, home):
    (home / "rows.jsonl").write_text(
        '{"account": "200000002A", "at": "2026-11-15T08:00:00Z"}\nno json\n[1]\n' + "x" * 70_000
    )
    code, out, _ = stoker("signals", "import", "rows.jsonl", "--json")
    told = json.loads(out)
    assert code == Exit.PROBLEMS
    assert (told["new"], told["bad"]) == (1, 3)
    assert [each["line"] for each in told["rows"]] == [2, 3, 4]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("signals", "import", "absent.csv"), "cannot be read"),
        (("signals", "import", "stoker.toml"), "must name its columns"),
        (("heat", "show", "acme/200000003A"), "stoker heat sweep"),
        (("heat", "show", "umbrella/1"), "umbrella"),
    ],
)
def test_what_cannot_be_is_one_clear_line(stoker, words, sentence):
    code, _, err = stoker(*words)
    assert code != 0
    assert sentence in err
    assert len(err.strip().splitlines()) == 1


def test_an_empty_store_says_what_to_do_next(stoker):
    assert "stoker heat sweep" in stoker("heat", "top")[1]


def test_heat_records_have_the_keys_and_names_that_tables_have(stoker):
    stoker("signals", "import", "rows.csv")
    stoker("heat", "sweep")
    first = json.loads(stoker("heat", "top", "--json")[1])[0]
    assert (first["pk"], first["sk"]) == ("TENANT#acme#ACCOUNT#200000001A", "HEAT#LATEST")
    assert first["name"] == "Company 200000001A"
    shown = json.loads(stoker("heat", "show", "200000001A", "--json")[1])
    assert (shown["pk"], shown["sk"]) == (first["pk"], first["sk"])
    assert "Company 200000001A" in stoker("heat", "top")[1]
    assert "from its fit" in stoker("heat", "show", "200000001A")[1]


def test_a_sweep_writes_the_days_heat_into_the_history(stoker):
    assert "a sweep writes it: stoker heat sweep" in stoker("heat", "history", "200000001A")[1]
    stoker("signals", "import", "rows.csv")
    stoker("heat", "sweep")
    stoker("heat", "sweep")
    [day] = json.loads(stoker("heat", "history", "acme/200000001A", "--json")[1])
    assert day["pk"] == "TENANT#acme#ACCOUNT#200000001A"
    assert day["sk"] == f"HEAT#{day['date']}"
    assert day["heat_score"] == pytest.approx(
        json.loads(stoker("heat", "show", "200000001A", "--json")[1])["heat_score"], abs=0.01
    )
    code, out, _ = stoker("heat", "history", "200000001A")
    assert (code, "Days without change are left out." in out) == (0, True)
