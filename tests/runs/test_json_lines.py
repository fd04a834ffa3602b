import json
import shutil
from pathlib import Path

import pytest

from stoker.base.errors import ConfigError, PermanentError
from stoker.files.durable import Disk
from stoker.runs.json_lines import ChecksummedLines

DATA = Path(__file__).parents[1] / "data"

BATCHES = [
    [{"id": "a", "title": "one"}, {"id": "b", "title": "two"}],
    [{"id": "c", "title": "three"}],
    [{"id": "d", "title": "four"}, {"id": "e", "title": "five"}, {"id": "f", "title": "six"}],
]
PREFIXES = [[row for batch in BATCHES[:n] for row in batch] for n in range(len(BATCHES) + 1)]


def written(path, batches=BATCHES):
    lines = ChecksummedLines(path)
    for batch in batches:
        lines.append(batch, disk=Disk())
    return lines


def told(lines):
    return [json.loads(row.line) for row in lines.read_new()]


def understood(path):
    """What a reader gets out of a file, and whether it noticed that something is wrong."""
    lines = ChecksummedLines(path)
    try:
        return told(lines), lines.partial_bytes > 0
    except ConfigError:
        return [], True


def naively_understood(path):
    """The twin: a reader of plain JSON lines, that passes over what it cannot parse."""
    rows, noticed = [], False
    for line in path.read_bytes().splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            noticed = True
            continue
        if not (isinstance(row, dict) and "chain" in row):
            rows.append(row)
    return rows, noticed


def test_what_was_appended_is_told_in_order_and_only_once(tmp_path):
    path = tmp_path / "rows.jsonl"
    reader = ChecksummedLines(path)
    writer = ChecksummedLines(path)

    assert told(reader) == []
    for batch in BATCHES:
        writer.append(batch, disk=Disk())
        assert told(reader) == batch
    assert told(reader) == []
    assert reader.position == writer.position


def test_each_row_says_where_it_stands(tmp_path):
    written(tmp_path / "rows.jsonl")
    content = (tmp_path / "rows.jsonl").read_bytes()

    for row in ChecksummedLines(tmp_path / "rows.jsonl").read_new():
        assert content[row.start :].startswith(row.line)


def test_every_line_is_json_that_other_tools_can_read(tmp_path):
    written(tmp_path / "rows.jsonl")

    lines = (tmp_path / "rows.jsonl").read_text(encoding="ascii").splitlines()

    assert [json.loads(line) for line in lines] == PREFIXES[-1]
    chain = (tmp_path / "rows.chain").read_text(encoding="ascii").splitlines()
    assert [json.loads(line)["rows"] for line in chain] == [2, 3, 6]


@pytest.mark.faults
def test_a_file_cut_at_any_byte_gives_its_whole_batches_and_says_that_something_is_missing(
    tmp_path,
):
    path = tmp_path / "rows.jsonl"
    lines = ChecksummedLines(path)
    ends = [0]
    for batch in BATCHES:
        lines.append(batch, disk=Disk())
        ends.append(lines.position.end)
    content, chain = path.read_bytes(), lines.chain_path.read_bytes()
    vouched = chain.splitlines(keepends=True)
    caught = 0

    for cut in range(len(content) + 1):
        path.write_bytes(content[:cut])
        whole = sum(end <= cut for end in ends) - 1
        # The chain is written after the records it vouches for.
        lines.chain_path.write_bytes(b"".join(vouched[:whole]))
        assert understood(path) == (PREFIXES[whole], cut not in ends)
        caught += naively_understood(path)[0] not in PREFIXES

    assert caught > 0, "a reader without batches must be seen to take half of one"


@pytest.mark.faults
def test_a_chain_cut_at_any_byte_gives_the_batches_it_vouches_for(tmp_path):
    path = tmp_path / "rows.jsonl"
    written(path)
    beside = path.with_suffix(".chain")
    chain = beside.read_bytes()
    for cut in range(len(chain) + 1):
        beside.write_bytes(chain[:cut])
        whole = chain[:cut].count(b"\n")
        assert understood(path) == (PREFIXES[whole], cut < len(chain))


def test_a_file_of_the_version_before_is_read_and_goes_on(tmp_path):
    path = tmp_path / "rows.jsonl"
    shutil.copy(DATA / "run_before" / "jobs.jsonl", path)
    lines = ChecksummedLines(path)
    before = told(lines)
    assert [row["title"] for row in before] == ["Data Engineer", "Cook"]
    lines.append([{"id": "new", "title": "Clerk"}], disk=Disk())
    assert told(ChecksummedLines(path)) == [*before, {"id": "new", "title": "Clerk"}]
    path.write_bytes(path.read_bytes()[:-5])
    again = ChecksummedLines(path)
    assert told(again) == before
    assert again.partial_bytes


@pytest.mark.faults
def test_no_flipped_bit_goes_unnoticed_or_changes_what_is_read(tmp_path):
    path = tmp_path / "rows.jsonl"
    written(path)
    content = path.read_bytes()
    missed_by_twin = 0

    for bit in range(0, len(content) * 8, 3):  # every byte, each with two or three of its bits
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << (bit % 8)
        path.write_bytes(damaged)
        rows, noticed = understood(path)
        assert noticed
        assert rows in PREFIXES[:-1]
        naive_rows, naively_noticed = naively_understood(path)
        missed_by_twin += not naively_noticed and naive_rows != PREFIXES[-1]

    assert missed_by_twin > 0, "a reader without the chain must be seen to believe damage"


@pytest.mark.faults
def test_a_hole_where_a_sector_never_reached_the_disk_is_noticed(tmp_path):
    path = tmp_path / "rows.jsonl"
    written(path)
    content = path.read_bytes()

    for hole in range(0, len(content), 16):
        path.write_bytes((content[:hole] + bytes(16) + content[hole + 16 :])[: len(content)])
        rows, noticed = understood(path)
        assert noticed
        assert rows in PREFIXES[:-1]


def test_a_torn_end_is_cut_off_and_kept_and_the_file_goes_on(tmp_path):
    path = tmp_path / "rows.jsonl"
    written(path)
    whole = written(tmp_path / "whole.jsonl", BATCHES[:2]).position.end
    torn = path.read_bytes()[:-5]
    path.write_bytes(torn)

    lines = ChecksummedLines(path)
    aside = lines.repair_tail(disk=Disk())
    lines.append(BATCHES[2], disk=Disk())

    assert aside.read_bytes() == torn[whole:]
    assert understood(path) == (PREFIXES[3], False)
    assert ChecksummedLines(path).repair_tail(disk=Disk()) is None


def test_damage_before_a_later_batch_is_never_cut_away(tmp_path):
    path = tmp_path / "rows.jsonl"
    written(path)
    damaged = path.read_bytes().replace(b"one", b"won")
    path.write_bytes(damaged)

    with pytest.raises(ConfigError, match=r"rows\.jsonl is damaged .*backup"):
        ChecksummedLines(path).repair_tail(disk=Disk())

    assert path.read_bytes() == damaged


@pytest.mark.faults
def test_two_writers_without_a_lock_are_caught_by_the_chain(tmp_path):
    path = tmp_path / "rows.jsonl"
    one, other = ChecksummedLines(path), ChecksummedLines(path)

    one.append(BATCHES[0], disk=Disk())
    other.append(BATCHES[1], disk=Disk())  # has not heard the news

    assert understood(path) == (BATCHES[0], True)


def test_a_file_that_is_not_the_one_we_knew_is_told_from_the_beginning(tmp_path):
    path = tmp_path / "rows.jsonl"
    reader = written(path)
    path.unlink()
    path.with_suffix(".chain").unlink()  # a run's folder goes as a whole
    written(path, [BATCHES[1], BATCHES[0], BATCHES[2], BATCHES[1]])

    assert told(reader) == [*BATCHES[1], *BATCHES[0], *BATCHES[2], *BATCHES[1]]
    assert reader.restarts == 1

    path.unlink()
    assert told(reader) == []
    assert reader.restarts == 2


def test_a_record_that_looks_like_the_end_of_a_batch_is_refused(tmp_path):
    lines = ChecksummedLines(tmp_path / "rows.jsonl")

    with pytest.raises(PermanentError, match="add another key"):
        lines.append([{"chain": "0" * 16, "rows": 1}], disk=Disk())

    assert not lines.path.exists()
