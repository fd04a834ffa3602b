"""The commands of some guides, typed one after the other as a reader would.

Each page is run in a directory of its own on the sandbox, and every command ends with exit code 0.
"""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

import pytest

from running_box import RunningBox
from stoker.cli.main import main
from stoker.cli.output import Exit

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```\n(.*?)^```", re.MULTILINE | re.DOTALL)
TENANT = ("init", 'tenants add acme --name "Acme Pte Ltd"')
READY = (
    *TENANT,
    "icp set --industry technology --employees 2-200",
    "crm connect",
    "registry import http://sandbox.test/registry.csv --release 2025-12-31",
)
BOARD = "greenhouse:riverfalconfreight-02"
# Not typed here: what goes on until Ctrl-C, and what the demo's own tests run.
SKIPPED = re.compile(r"sandbox serve|schedule run(?! --once)|demo\b|simulate |-C demo-out")
SETTINGS = (
    "datagov.calls=1000000",
    "datagov_downloads.calls=1000000",
    "crawl.gap_s=0.001",
    f"discovery.sources={BOARD}",
)
FILES = {
    "people.csv": "url,name\nhttps://example.com/ann,Ann Tan\n",
    "codes.csv": "code,title\n62011,Development of software\n",
}


# What stands in the docs for names that a reader has: the run and company are the reader's own.
NAMES = {
    "acme.com.sg": "riverfalconfreight-02.test",
    "acra_q_2025-12-31.csv.gz": "acra_q_2025-12-31.csv",
    "201012345K": "201000001N",
    "greenhouse:acme": BOARD,
}


@dataclass(frozen=True)
class Page:
    """A page, and what its reader has done before."""

    name: str
    before: tuple[str, ...] = ()


PAGES = (
    Page("docs/guides/connectors.md", READY),
    Page("docs/guides/crawling.md", READY),
    Page("docs/guides/discovery.md", READY),
    Page("docs/guides/registry.md", READY[:1]),
    Page("docs/guides/touches.md", TENANT),
)


def read_commands(text):
    """Return the commands in the code blocks of a page, in their order."""
    lines = [line for block in BLOCK.findall(text) for line in block.splitlines()]
    typed = [line.partition(" #")[0] for line in lines if line.startswith("stoker ")]
    return [line.removeprefix("stoker ").strip() for line in typed if not SKIPPED.search(line)]


class Reader:
    """Types commands in a directory of its own, where every vendor is fake."""

    def __init__(self, place, box, capsys):
        self._capsys, self._place = capsys, place
        self._start = ["-C", str(place), "--set", f"sandbox.address={box.box.address}"]
        self._start += [word for each in SETTINGS for word in ("--set", each)]

    def type(self, words):
        """Return the exit code of a command, and what it printed."""
        for name, own in NAMES.items():
            words = words.replace(name, own)
        code = main([*self._start, *shlex.split(words)])
        printed = self._capsys.readouterr()
        return code, printed.out + printed.err.partition('{"at"')[0]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_commands_of_a_guide_work(page, tmp_path, capsys):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    for file in (ROOT / "tests" / "samples").glob("*.csv"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    with RunningBox(companies=200, seed=1) as box:
        reader = Reader(tmp_path, box, capsys)
        for words in page.before:
            code, out = reader.type(words)
            assert code in (Exit.OK, Exit.PARTIAL), out
        commands = read_commands((ROOT / page.name).read_text(encoding="utf-8"))
        ended = {words: reader.type(words) for words in commands}
    assert len(ended) >= 2
    assert [f"{words}\n{out}" for words, (code, out) in ended.items() if code != Exit.OK] == []
