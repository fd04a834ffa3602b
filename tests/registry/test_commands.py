"""`stoker registry` from the outside: what is typed, what is shown, which exit code."""

import gzip
import json
import os
import pty
import subprocess
import sys

import pytest

from register_rows import line, number, row, text
from running_box import RunningBox
from stoker.cli.main import main
from stoker.cli.output import Exit

FAST = ("--set", "datagov_downloads.calls=100000", "--set", "datagov.calls=100000")
FILE = "acra_q_2025-09-30.csv"


@pytest.fixture
def stoker(tmp_path, capsys):
    def stoker(*arguments, on=None):
        there = [] if on is None else ["--set", f"sandbox.address={on}"]
        code = main(["-C", str(tmp_path), *FAST, *there, "registry", *arguments])
        out, err = capsys.readouterr()
        return code, out, err

    return stoker


@pytest.fixture
def asked(stoker):
    def asked(*arguments, on=None):
        return json.loads(stoker(*arguments, "--json", on=on)[1])

    return asked


@pytest.fixture
def written(tmp_path):
    def written(raw, name=FILE):
        (tmp_path / name).write_bytes(raw if isinstance(raw, bytes) else raw.encode())
        return name

    return written


@pytest.fixture(scope="module")
def box():
    with RunningBox(companies=400) as running:
        yield running


def test_an_empty_register_says_how_to_fill_it(stoker, tmp_path):
    code, out, _ = stoker("status")

    assert code == Exit.OK
    assert "stoker registry import" in out
    assert list(tmp_path.iterdir()) == []  # looking makes nothing


def test_a_file_is_imported_counted_shown_and_the_second_time_nothing_is_done(
    stoker, asked, written
):
    file = written(gzip.compress(text([row(1), row(2, postal_code="69538")]).encode()))

    code, out, _ = stoker("import", file)
    assert code == Exit.OK
    assert "2 rows of 2025-09-30" in out
    assert "2 new, 0 changed, 0 unchanged, 0 rejected, 0 removed" in out
    code, out, _ = stoker("import", file)
    assert (code, "nothing to do" in out) == (Exit.OK, True)
    assert asked("status")["counts"] == {"live": 2}
    shown = asked("show", number(2).lower())
    assert (shown["uen"], shown["postal_code"], shown["live"]) == (number(2), "069538", True)
    code, out, _ = stoker("show", number(1))
    assert (code, "12 FORGE STREET #03-04 069538" in out) == (Exit.OK, True)
    code, out, _ = stoker("status", "--by", "division")
    assert "62" in out


def test_two_releases_are_read_in_their_order_however_they_are_given(asked, written):
    first = written(text([row(1), row(2)]))
    second = written(text([row(1, no_of_officers="9"), row(2), row(3)]), "acra_2025-12-31.csv")

    told = asked("import", second, first)["files"]
    assert [(each["release"], each["new"], each["changed"]) for each in told] == [
        ("2025-09-30", 2, 0),
        ("2025-12-31", 1, 1),
    ]


def test_rows_that_cannot_be_read_are_listed_with_the_reason_and_shown_harmless(
    stoker, asked, written
):
    bad = line(2, uen="na").replace("QUIET", "QUI\x1b[31mET")
    code, out, _ = stoker("import", written(text([row(1)]) + bad + "1,2\n"))

    assert code == Exit.PROBLEMS  # two of three
    assert "2 rejected" in out
    assert "stoker registry rejects" in out
    code, out, _ = stoker("rejects")
    assert "it has no uen" in out
    assert "\x1b" not in out
    [one, two] = asked("rejects")
    assert (one["line"], two["line"], two["text"]) == (3, 4, "1,2")
    assert asked("rejects", "--after", str(one["number"])) == [two]
    assert "--after" in stoker("rejects", "--limit", "1")[1]


@pytest.mark.parametrize(("good", "code"), [(2, Exit.PROBLEMS), (3, Exit.OK)])
def test_the_exit_code_tells_when_a_third_of_the_rows_was_rejected(stoker, written, good, code):
    rows = text([row(n) for n in range(1, good + 1)])
    assert stoker("import", written(rows + "1,2\n"))[0] == code


def test_a_file_that_is_refused_does_not_keep_the_others_from_being_read(stoker, written):
    good, page = written(text([row(1)])), written("<html>", "page.csv")

    code, out, err = stoker("import", page, "nothing.csv", good)
    assert code == Exit.FAILED
    assert "1 new" in out
    assert "web page" in err
    assert "nothing.csv cannot be read" in err


def test_a_file_without_a_date_in_its_name_must_be_told_its_release(stoker, asked, written):
    file = written(text([row(1)]), "register.csv")

    code, _, err = stoker("import", file)
    assert (code, "--release" in err) == (Exit.FAILED, True)
    code, out, err = stoker("import", file, written(text([row(2)]), "r_2025-09-30.csv"))
    assert (code, "--release" in err, "1 new" in out) == (Exit.FAILED, True, True)
    [told] = asked("import", file, "--release", "2025-12-31", "--part", "q")["files"]
    assert (told["release"], told["part"], told["new"]) == ("2025-12-31", "Q", 1)


def test_an_older_release_is_refused_and_read_by_force(stoker, asked, written):
    asked("import", written(text([row(1)]), "a_2025-12-31.csv"))
    older = written(text([row(1, no_of_officers="1")]))

    code, _, err = stoker("import", older)
    assert (code, "--allow-older" in err) == (Exit.FAILED, True)
    [refused] = asked("import", older)["refused"]
    assert refused["reason"] == "RELEASE_PASSED"
    assert older in refused["because"]
    assert asked("import", older, "--force")["files"][0]["changed"] == 1


def test_statuses_that_are_not_known_are_named_on_the_screen_and_in_json(stoker, asked, written):
    odd = [row(n, entity_status_description=f"Odd {n:02}\x1b[31m") for n in range(1, 13)]
    file = written(text([row(20), *odd, row(21, entity_status_description="Odd 01\x1b[31m")]))

    code, out, _ = stoker("import", file)
    assert code == Exit.OK
    assert "13 rows imported with a warning: status not known, taken as closed" in out
    assert "unknown status Odd 01" in out
    assert ": 2 rows" in out
    assert "and 2 more statuses; see --json" in out
    assert "\x1b" not in out
    [told] = asked("import", file, "--reread")["files"]
    assert sum(told["unknown_statuses"].values()) == 13
    assert len(told["unknown_statuses"]) == 12


def test_a_file_in_latin_1_is_refused_with_the_next_step(stoker, asked, written):
    name = "QUI\N{LATIN SMALL LETTER E WITH ACUTE}T"
    raw = text([row(n, entity_name=name) for n in range(1, 4)])
    code, _, err = stoker("import", written(raw.encode("latin-1")))
    assert (code, "save it as UTF-8 first" in err) == (Exit.FAILED, True)
    assert asked("rejects") == []
    assert stoker("import", written(raw))[0] == Exit.OK


def test_a_file_comes_through_a_pipe(tmp_path):
    command = [sys.executable, "-m", "stoker.cli.main", "-C", str(tmp_path), "registry", "import"]
    done = subprocess.run(
        [*command, "-", "--release", "2025-12-31", "--json"],
        input=gzip.compress(text([row(1)]).encode()),
        capture_output=True,
        check=True,
    )

    [told] = json.loads(done.stdout)["files"]
    assert (told["source"], told["new"]) == ("stdin", 1)


def on_a_terminal(*command):
    """Return what a command says on a real terminal, where stdout and stderr meet."""
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "wb", buffering=0) as stream:
        subprocess.run(command, stdin=stream, stdout=stream, stderr=stream, check=True)
    said = b""
    try:
        while more := os.read(ours, 100_000):
            said += more
    except OSError:  # which is how a terminal says that nobody writes any more
        pass
    finally:
        os.close(ours)
    return said.decode()


def test_on_a_terminal_a_file_is_told_of_once_and_elsewhere_the_log_has_its_line(tmp_path, written):
    command = [sys.executable, "-m", "stoker.cli.main", "-C", str(tmp_path), "registry", "import"]
    first = written(text([row(1), row(2)]))
    second = written(text([row(1), row(2), row(3)]), "acra_2025-12-31.csv")

    said = on_a_terminal(*command, first)
    piped = subprocess.run([*command, second], capture_output=True, check=True, text=True)

    assert said.count("2 new") == 1
    assert "2 rows of 2025-09-30" in said
    assert "1 new" in piped.stdout
    assert "1 new" in piped.stderr


def test_a_file_comes_from_an_address_and_its_query_is_not_kept(asked, box):
    url = "http://sandbox.test/registry.csv?rows=50&key=s3cret"
    told = asked("import", url, "--release", "2025-09-30", "--sandbox", box.box.address)

    [file] = told["files"]
    assert (file["source"], file["rejected"]) == ("registry.csv", 0)
    assert file["new"] >= 45
    status = json.dumps(asked("status", on=box.box.address))
    assert "registry.csv" in status
    assert "s3cret" not in status


def test_a_rehearsed_register_is_not_the_real_one_and_the_import_says_so(stoker, asked, box):
    where = ("--sandbox", box.box.address)
    _, out, _ = stoker("import", "--download", "--letters", "D", *where)
    assert "Sandbox data, stored apart; see it with: stoker --set sandbox.address=127.0.0.1:" in out
    assert asked("status")["counts"] == {}
    assert asked("status", on=box.box.address)["counts"]


def test_letters_are_downloaded_and_the_second_time_not_even_asked_for(asked, box):
    where = ("--sandbox", box.box.address)
    first = asked("import", "--download", "--letters", "b,C", *where)["files"]
    requests = box.meter.requests
    second = asked("import", "--download", "--letters", "b,C", *where)["files"]

    assert [(each["part"], each["release"]) for each in first] == [
        ("B", "2025-09-30"),
        ("C", "2025-09-30"),
    ]
    assert all(each["new"] > 0 and each["rejected"] == 0 for each in first)
    assert all(each["before"] for each in second)
    assert box.meter.requests == requests + 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("import",),
        ("import", "a.csv", "--download"),
        ("import", "a.csv", "--letters", "A"),
        ("import", "--download", "--letters", "A,1"),
        ("import", "--download", "--release", "2025-12-31"),
        ("import", "a.csv", "b.csv", "--part", "A"),
        ("import", "a.csv", "--part", "AA"),
        ("import", "a.csv", "--release", "newest"),
        ("status", "--by", "colour"),
        ("ssic", "show", "tecnology"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_line(stoker, arguments):
    code, _, err = stoker(*arguments)

    assert code == Exit.CONFIG
    assert len(err.strip().splitlines()) == 1


def test_an_entity_nobody_knows_is_a_problem(stoker):
    code, out, _ = stoker("show", "199999999Z")
    assert (code, "has no company" in out) == (Exit.PROBLEMS, True)
    assert stoker("show", "199999999Z", "--json")[:2] == (Exit.PROBLEMS, "null\n")
    assert stoker("show", "")[0] == Exit.CONFIG


def test_a_classification_gives_titles_to_industries(stoker, asked, written):
    codes = "Code,Title\nJ,Knowing\n62,Programming\n62011,Making games\n6,?\n62,Again\n"
    file = written(codes, "codes.csv")

    code, out, err = stoker("ssic", "import", file)
    assert (code, "Imported 3 codes of 2020; 2 rows rejected." in out) == (Exit.OK, True)
    assert "line 5" in err
    asked("import", written(text([row(1)])))
    assert "62011 Making games" in stoker("show", number(1))[1]
    assert asked("ssic", "show", "Technology")["begins"] == ["58", "61", "62", "63"]
    assert [each["code"] for each in asked("ssic", "show", "62")["codes"]] == ["62", "62011"]
    assert "No titles of 2025" in stoker("ssic", "show", "62", "--version", "2025")[1]


def test_a_file_that_is_no_classification_changes_nothing(stoker, asked, written):
    stoker("ssic", "import", written("code,title\n62,Programming\n", "codes.csv"))

    for raw in ("", "a,b\n1,2\n", "code,title\n"):
        assert stoker("ssic", "import", written(raw, "bad.csv"))[0] == Exit.FAILED
    assert stoker("ssic", "import", "nothing.csv")[0] == Exit.FAILED
    assert len(asked("ssic", "show", "62")["codes"]) == 1


def test_a_rule_wants_no_code_that_its_classification_does_not_have(tmp_path, stoker, written):
    stoker("ssic", "import", written("code,title\n62,Programming\n62011,Games\n", "codes.csv"))

    def rule(industry):
        return main(["-C", str(tmp_path), "icp", "set", "--industry", industry])

    assert [rule(each) for each in ("62", "6201", "62011", "58", "technology")] == [Exit.OK] * 5
    assert [rule(each) for each in ("62019", "40")] == [Exit.CONFIG] * 2
