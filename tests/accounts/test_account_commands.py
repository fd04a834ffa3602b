"""`stoker accounts`: a list of one's own comes in, and is what heat and pulls work with."""

import json

import pytest

from stoker.accounts.account_rows import parse_account_row
from stoker.accounts.icp import IcpRule, match_icp
from stoker.accounts.model import Company
from stoker.cli.main import main
from stoker.cli.output import Exit

LIST = (
    "Account ID,Name,Domain,Posture,Owner\n"
    "a-1,Alpha Ltd,www.alpha.example,0.9,Bob\n"
    "a-2,,beta.example,,\n"
    "a-3,Gamma,,1.2,\n"
    ",Nameless,,,\n"
    "a-1,Again,,,\n"
    "a-4,Delta,not a domain,0.5,\n"
    "a-5,Epsilon,,high,\n"
    "a-6,Zeta\n"
)


@pytest.fixture
def stoker(tmp_path, capsys):
    (tmp_path / "stoker.toml").write_text("[tenants.acme]\n")
    (tmp_path / "list.csv").write_text(LIST)

    def run(*words):
        code = main(["-C", str(tmp_path), "--set", "logging.level=error", *words])
        printed = capsys.readouterr()
        assert "Traceback" not in printed.err
        return code, printed.out, printed.err

    return run


def load(stoker, *words):
    return json.loads(stoker(*words, "--json")[1])


def test_good_rows_come_in_and_each_bad_one_is_named_with_its_line(stoker):
    code, out, _ = stoker("accounts", "import", "list.csv")
    assert code == Exit.PROBLEMS
    assert "acme: 2 new accounts, 0 changed, 0 as before; 1 with a posture, 2 with a domain" in out
    assert "Columns used: Account ID, Name, Domain, Posture. Not used: Owner." in out
    done = load(stoker, "accounts", "import", "list.csv")
    assert (done["new"], done["changed"], done["same"]) == (0, 0, 2)
    assert done["columns_not_used"] == ["Owner"]
    assert {row["line"]: row["because"] for row in done["rows"]} == {
        4: "its posture '1.2' is not from 0 to 1; write it like 0.8",
        5: "it has no account_id",
        6: "account 'a-1' is on line 2 already",
        7: "its domain 'not a domain' is no web address: "
        "a web address has no spaces or control characters in it",
        8: "its posture 'high' is no number; write it like 0.8",
        9: "it has 2 cells where the first line has 5",
    }


def test_imported_accounts_are_listed_shown_and_planned(stoker):
    stoker("accounts", "import", "list.csv")
    assert [(each["account_id"], each["name"]) for each in load(stoker, "accounts", "list")] == [
        ("a-1", "Alpha Ltd"),
        ("a-2", "beta.example"),
    ]
    code, out, _ = stoker("accounts", "list", "--limit", "1")
    assert (code, "More accounts: repeat with --after a-1" in out) == (0, True)
    assert "a-2" in stoker("accounts", "list", "--limit", "1", "--after", "a-1")[1]
    shown = load(stoker, "accounts", "show", "acme/a-1")
    assert (shown["posture"], shown["matches_icp"], shown["website"]) == (
        0.9,
        True,
        "https://www.alpha.example/",
    )
    assert "0.90, as you gave it" in stoker("accounts", "show", "a-1")[1]
    assert [each["account_id"] for each in load(stoker, "heat", "top")] == ["a-1", "a-2"]
    [plan] = load(stoker, "pulls", "quote")
    assert (plan["accounts"], plan["selected"]) == (2, 2)
    assert "Alpha Ltd (a-1)" in stoker("why", "acme/a-1")[1]  # as written, in small letters


def test_an_unknown_account_or_file_and_a_list_without_ids_are_one_line(stoker, tmp_path):
    code, _, err = stoker("accounts", "show", "a-9")
    assert (code, err) == (
        Exit.CONFIG,
        "stoker: acme has no account 'a-9'; see: stoker accounts list --tenant acme\n",
    )
    assert stoker("accounts", "import", "none.csv")[0] == Exit.CONFIG
    (tmp_path / "wrong.csv").write_text("company_name,score\nAlpha,1\n")
    code, _, err = stoker("accounts", "import", "wrong.csv")
    assert code == Exit.CONFIG
    assert "the first line must name its columns: account_id" in err
    assert "import your own with: stoker accounts import FILE.csv" in stoker("accounts", "list")[1]


def test_a_changed_posture_replaces_the_old_one_and_an_empty_one_keeps_it(stoker, tmp_path):
    stoker("accounts", "import", "list.csv")
    (tmp_path / "new.csv").write_text("account_id,posture\na-1,0.3\na-2,0.7\n")
    assert load(stoker, "accounts", "import", "new.csv")["changed"] == 2
    postures = {
        each["account_id"]: each["factors"]["posture_score"] for each in load(stoker, "heat", "top")
    }
    assert postures == {"a-1": 0.3, "a-2": 0.7}
    (tmp_path / "new.csv").write_text("account_id,posture\na-1,\n")
    assert load(stoker, "accounts", "import", "new.csv")["same"] == 1
    assert load(stoker, "accounts", "show", "a-1")["posture"] == 0.3


@pytest.mark.parametrize("posture", ["nan", "inf", "-0.01", "1.0001", "0,5", "80%"])
def test_a_posture_is_a_number_from_0_to_1(posture):
    assert "posture" in parse_account_row({"account_id": "a", "posture": posture})


@pytest.mark.parametrize("posture", [0.0, 0.5, 1.0])
def test_a_posture_of_0_or_1_is_one(posture):
    assert parse_account_row({"account_id": "a", "posture": str(posture)}).posture == posture


def test_an_imported_account_matches_whatever_the_rule_unless_it_is_dissolved():
    given = Company(id="a", name="A", ssic="01111", year=1900, is_given=True)
    assert match_icp(given, IcpRule()).fits
    assert not match_icp(Company(id="a", name="A", live=False, is_given=True), IcpRule()).fits
