"""Files of the register: looked through first, packed or not, cut, foreign, changing, huge."""

import gzip
import io
import tracemalloc
import zipfile

import pytest

from register_rows import line, row, text
from stoker.base.errors import PermanentError, TransientError
from stoker.registry.acra import ParsedRow, RejectedRow
from stoker.registry.files import open_register_files

NAMES = ("uen", "entity_name", "entity_type_description", "entity_status_description")
CSV = text([row(1), row(2), row(3)]).encode()


def written(tmp_path, raw, name="register.csv"):
    (tmp_path / name).write_bytes(raw)
    return tmp_path / name


def zipped(files):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, raw in files.items():
            archive.writestr(name, raw)
    return out.getvalue()


def rows_of(path):
    [file] = open_register_files(path)
    return list(file.iter_rows())


def test_packed_or_not_it_is_the_same_file_with_the_same_rows(tmp_path):
    plain = written(tmp_path, CSV)
    packed = written(tmp_path, gzip.compress(CSV), "register.csv.gz")
    archived = written(tmp_path, zipped({"a/q.CSV": CSV, "readme.txt": b"x"}), "register.zip")

    [one], [two], [three] = map(open_register_files, (plain, packed, archived))
    assert one.digest == two.digest == three.digest
    assert list(one.iter_rows()) == list(two.iter_rows()) == list(three.iter_rows())
    assert len(list(one.iter_rows())) == 3
    assert three.name == "register.zip:a/q.CSV"
    assert one.lines == 4


def test_every_csv_file_of_an_archive_is_read(tmp_path):
    other = text([row(9)]).encode()
    path = written(tmp_path, zipped({"b.csv": other, "a.csv": CSV}), "all.zip")

    assert [(file.member, len(list(file.iter_rows()))) for file in open_register_files(path)] == [
        ("a.csv", 3),
        ("b.csv", 1),
    ]


@pytest.mark.parametrize("cut", [1, 20, 100])
def test_a_packed_file_that_breaks_off_is_refused_before_any_row_is_given_out(tmp_path, cut):
    path = written(tmp_path, gzip.compress(CSV)[:-cut], "cut.csv.gz")

    with pytest.raises(PermanentError, match="truncated"):
        open_register_files(path)
    with gzip.open(path, "rb") as naive, pytest.raises(EOFError):
        list(naive)  # would have given out rows before it fails


@pytest.mark.parametrize("packed", [bytes, gzip.compress])
def test_a_file_that_breaks_off_in_a_row_is_refused_and_one_without_a_last_end_is_not(
    tmp_path, packed
):
    whole, last = CSV.rstrip(b"\n"), CSV.splitlines()[-1]
    for cut in range(1, last.count(b",") + 1):
        path = written(tmp_path, packed(whole.rsplit(b",", cut)[0]), "cut.csv")
        with pytest.raises(PermanentError, match=r"cut\.csv is cut off in its last row"):
            open_register_files(path)

    assert len(rows_of(written(tmp_path, packed(whole)))) == 3
    two = b"\n".join(whole.splitlines()[:-1]) + b"\n"
    assert len(rows_of(written(tmp_path, packed(two)))) == 2


def test_a_last_row_that_goes_over_two_lines_is_whole_without_an_end(tmp_path):
    odd = row(3, primary_user_described_activity="Trade in\nsteel")
    [*_, last] = rows_of(written(tmp_path, text([row(1), odd]).rstrip("\n").encode()))
    assert last.entity.activity == "Trade in\nsteel"


def test_a_packed_file_whose_bytes_were_turned_is_refused(tmp_path):
    raw = bytearray(gzip.compress(CSV))
    raw[-6] ^= 0xFF  # in the checksum: only who reads to the end can see it
    with pytest.raises(PermanentError, match="damaged"):
        open_register_files(written(tmp_path, bytes(raw)))


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"", "is empty"),
        (b"<!DOCTYPE html><p>sorry", "web page"),
        (b"  <Error><Code>AccessDenied</Code></Error>", "web page"),
        (CSV.decode().encode("utf-16"), "UTF-16"),
        (CSV.replace(b",", b";"), "separated by semicolons"),
        (CSV.replace(b",", b"\t"), "separated by tabs"),
        (zipped({"xl/workbook.xml": b"<x/>"}), "Excel workbook"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "Excel workbook"),
        (b"code,title,level\n62,x,division\n", "no uen"),
        (b'"uen,entity_name\n', "first line cannot be read"),
        (b"\xff\xff\xff\n", "first line cannot be read"),
        (b"PK\x03\x04 not an archive", "damaged"),
        (zipped({"sheet.xml": b"<x/>"}), "0 CSV files"),
        (b"x" * 1_000_000, "first line cannot be read"),
    ],
)
def test_what_is_no_register_is_refused_in_one_sentence(tmp_path, raw, says):
    with pytest.raises(PermanentError, match=says) as caught:
        open_register_files(written(tmp_path, raw))
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_or_a_folder_is_refused(tmp_path):
    with pytest.raises(PermanentError, match=r"nothing\.csv cannot be read"):
        open_register_files(tmp_path / "nothing.csv")
    with pytest.raises(PermanentError, match="cannot be read"):
        open_register_files(tmp_path)


def test_an_archive_with_a_password_is_refused(tmp_path):
    raw = bytearray(zipped({"a.csv": CSV}))
    for mark, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        raw[raw.index(mark) + at] |= 1  # says that the file is encrypted
    with pytest.raises(PermanentError, match="damaged"):
        open_register_files(written(tmp_path, bytes(raw), "locked.zip"))


def test_each_bad_row_comes_with_its_line_and_reason_and_the_others_are_read(tmp_path):
    header = text([]).encode()
    bad = {
        b"1,2,3\n": "cells",
        line(4)
        .replace("QUIET", "QUI\N{LATIN SMALL LETTER E WITH ACUTE}T")
        .encode("latin-1"): "UTF-8",
        line(5, street_name="x" * 2_000_000).encode(): "bytes",
        line(6, street_name="y" * 20_000).encode(): "characters",
        line(7, uen="na").encode(): "no uen",
        line(8).replace("QUIET", '"QUIET').encode(): "quote",
        b',"' + line(9).encode(): "quote",
    }
    raw = (
        header
        + line(1).encode()
        + b"".join(bad)
        + line(2).encode()
        + b"\0".join([line(3)[:-1].encode(), b"\n"])
    )

    rows = rows_of(written(tmp_path, raw))
    refused = [each for each in rows if isinstance(each, RejectedRow)]
    assert [each.line for each in refused] == list(range(3, 3 + len(bad)))
    for each, says in zip(refused, bad.values(), strict=True):
        assert says in each.reason
        assert "\0" not in each.text
        assert len(each.text) <= 2_000
    assert len([each for each in rows if isinstance(each, ParsedRow)]) == 3


ACCENT = "QUI\N{LATIN SMALL LETTER E WITH ACUTE}T"


@pytest.mark.parametrize("packed", [bytes, gzip.compress])
@pytest.mark.parametrize(("plain", "accented"), [(0, 1), (500, 3)])
def test_a_file_in_latin_1_is_refused_as_such(tmp_path, plain, accented, packed):
    rows = [row(n) for n in range(1, plain + 1)]
    rows += [row(1000 + n, entity_name=ACCENT) for n in range(accented)]
    raw = text(rows)

    assert len(rows_of(written(tmp_path, packed(raw.encode())))) == len(rows)
    for end in (raw, raw.rstrip("\n")):
        with pytest.raises(PermanentError, match=r"Latin-1 text .* save it as UTF-8 first"):
            open_register_files(written(tmp_path, packed(end.encode("latin-1"))))


def test_a_few_damaged_lines_of_a_utf_8_file_are_rejected_alone(tmp_path):
    good = text([row(n, entity_name=ACCENT) for n in range(1, 6)]).encode()
    bad = b"".join(line(n, entity_name=ACCENT).encode("latin-1") for n in range(6, 10))
    rows = rows_of(written(tmp_path, good + bad))
    assert [each.reason for each in rows if isinstance(each, RejectedRow)] == [
        "it is not UTF-8 text"
    ] * 4


def test_columns_in_another_order_with_more_or_fewer_of_them_are_the_same_register(tmp_path):
    said = row(1) | {"paid_up_capital1": "100"}
    other = sorted(said, reverse=True)
    fewer = [*NAMES, "registration_incorporation_date", "primary_ssic_code"]

    [reading] = rows_of(written(tmp_path, text([said], columns=other).encode()))
    assert reading.entity.raw["paid_up_capital1"] == "100"
    [short] = rows_of(written(tmp_path, text([said], columns=fewer).encode()))
    assert (short.entity.uen, short.entity.street) == (reading.entity.uen, "")


def test_a_mark_at_the_beginning_and_crlf_change_nothing(tmp_path):
    raw = b"\xef\xbb\xbf" + text([row(1), row(2), row(3)], end="\r\n").encode()

    assert rows_of(written(tmp_path, raw)) == rows_of(written(tmp_path, CSV))


def test_a_file_of_another_letter_is_refused_and_a_few_strangers_are_not(tmp_path):
    path = written(tmp_path, CSV)
    assert len(open_register_files(path, part="Q")) == 1
    with pytest.raises(PermanentError, match="not part A"):
        open_register_files(path, part="A")
    with pytest.raises(PermanentError, match="not part Others"):
        open_register_files(path, part="Others")
    renamed = text([row(1), row(2), row(3, entity_name="ANVIL")]).encode()
    assert len(open_register_files(written(tmp_path, renamed), part="Q")) == 1


def test_a_file_that_changed_since_it_was_looked_through_is_noticed(tmp_path):
    path = written(tmp_path, CSV)
    [file] = open_register_files(path)
    path.write_bytes(CSV.replace(b"QUIET", b"LOUD!"))

    with pytest.raises(TransientError, match="changed"):
        list(file.iter_rows())


def test_a_bomb_takes_no_room_and_the_naive_way_does(tmp_path):
    size = 60_000_000
    path = written(tmp_path, gzip.compress(CSV + b"x" * size, 9), "bomb.csv.gz")

    def peak(work):
        tracemalloc.start()
        try:
            work()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert peak(lambda: rows_of(path)) < 10_000_000
    with gzip.open(path) as stream:
        assert peak(lambda: stream.read().splitlines()) > size
