"""`stoker contacts erase`, asked the way a person does."""

import errno
import gzip
import json
import os
from pathlib import Path

import pytest

from stoker.cli.main import main
from stoker.cli.output import Exit

EMAIL = "jane.doe@acme.test"


@pytest.fixture
def stoker(tmp_path, capsys):
    (tmp_path / "stoker.toml").write_text("[tenants.acme]\n")

    def asking(*words):
        code = main(["-C", str(tmp_path), "--set", "logging.level=error", *words])
        said = capsys.readouterr()
        return code, said.out, said.err

    assert asking("db", "migrate")[0] == 0
    return asking


def test_a_person_that_is_not_known_is_kept_out_all_the_same_and_the_ledger_names_nobody(stoker):
    code, out, _ = stoker("contacts", "erase", EMAIL, "--json")
    told = json.loads(out)
    assert (code, told["contacts"], told["tables"], told["problems"]) == (0, 0, {}, [])
    _, out, _ = stoker("ledger", "list", "--kind", "erased", "--json")
    assert "ERASED" in out
    assert "jane" not in out


def test_a_dry_run_writes_nothing(stoker):
    assert stoker("contacts", "erase", EMAIL, "--dry-run")[0] == 0
    assert "ERASED" not in stoker("ledger", "list", "--json")[1]


def test_files_that_contain_the_person_are_named_and_left(stoker, tmp_path):
    (tmp_path / "leads.csv").write_text(f"email\n{EMAIL}\n")
    code, out, _ = stoker("contacts", "erase", EMAIL)
    assert code == Exit.PROBLEMS
    assert "leads.csv" in out
    assert EMAIL in (tmp_path / "leads.csv").read_text()


@pytest.mark.parametrize("name", ["LEADS", "deep/er/leads.csv", "old.zip", ".hidden"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_every_file_below_the_working_directory_is_searched(stoker, tmp_path, name, encoding):
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    text = "x" * 2**20 + f"\n{EMAIL}\n"
    (tmp_path / name).write_bytes(text.encode(encoding))
    code, out, _ = stoker("contacts", "erase", EMAIL, "--json")
    assert (code, json.loads(out)["files"]) == (Exit.PROBLEMS, [str(tmp_path / name)])


def test_what_cannot_be_searched_is_named_but_the_store_in_use_is_not(stoker, tmp_path):
    elsewhere = tmp_path.parent / f"{tmp_path.name}-elsewhere"
    elsewhere.mkdir()
    (tmp_path / "rotated.log").write_bytes(gzip.compress(EMAIL.encode()))
    (tmp_path / "backup").write_bytes((tmp_path / "stoker.db").read_bytes())
    (tmp_path / "round").symlink_to("round")
    (tmp_path / "linked").symlink_to(elsewhere)
    (tmp_path / "gone").symlink_to("nowhere")
    (tmp_path / ".git").mkdir()
    code, out, _ = stoker("contacts", "erase", EMAIL, "--json")
    problems = [each.partition(" could not be searched: ") for each in json.loads(out)["problems"]]
    assert code == Exit.PROBLEMS
    assert {Path(path).name: why for path, _, why in problems} == {
        "rotated.log": "it is compressed",
        "backup": "it is a database, or a copy of one",
        "round": os.strerror(errno.ELOOP),
        "linked": "it is a link; give the folder itself to --search",
        ".git": "its history is compressed",
    }


@pytest.mark.parametrize("backend", ["json", "memory"])
def test_a_store_that_is_not_in_use_is_named(stoker, tmp_path, backend):
    words = ("--set", f"storage.backend={backend}")
    assert stoker(*words, "db", "migrate")[0] == 0
    _, out, _ = stoker(*words, "contacts", "erase", EMAIL, "--json")
    assert [Path(each.partition(" ")[0]).name for each in json.loads(out)["problems"]] == [
        "stoker.db"
    ]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "say whom to erase"),
        (("--name", "Jane Doe"), "--name and --company"),
        (("--name", "!", "--company", "X"), "the whole name"),
        (("--name", "Jane Doe", "--company", "X"), "has no company 'X'"),
        (("--profile", "https://"), "a profile is a web address"),
        (("--profile", "https://www.linkedin.com/in/"), "a profile is a web address"),
        (("@",), "not a whole address"),
        ((EMAIL, "--tenant", "umbrella"), "umbrella"),
    ],
)
def test_what_cannot_be_is_one_clear_line(stoker, words, sentence):
    code, out, err = stoker("contacts", "erase", *words)
    assert code == Exit.CONFIG
    assert sentence in err
    assert (out, len(err.strip().splitlines())) == ("", 1)
