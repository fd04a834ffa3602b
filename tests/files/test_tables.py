"""Tables from strangers: a fault costs its own line, and the naive way is seen to lose more."""

import csv
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.base.errors import ConfigError
from stoker.files.tables import MAX_LINE_BYTES, STRICT, TableLimits, read_csv, read_table

HEADER = b"a,b,c\n"


def read(raw):
    return list(read_csv(io.BytesIO(raw)))


def cells(raw):
    return [list(record.cells) for record in read(raw) if not record.wrong]


def wrong(raw):
    return [(record.line, record.wrong) for record in read(raw) if record.wrong]


plain = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)


@given(
    st.lists(st.lists(plain, min_size=3, max_size=3), max_size=8), st.sampled_from(["\n", "\r\n"])
)
def test_what_a_csv_writer_wrote_is_read_as_it_was(rows, end):
    out = io.StringIO()
    writer = csv.writer(out, lineterminator=end, quoting=csv.QUOTE_ALL)
    writer.writerows([["a", "b", "c"], *rows])
    parts = [text.split("\n") for row in rows for text in row]
    many_lines = any(len(lines) >= STRICT.record_lines for lines in parts)
    like_rows = any(line.count(",") == 2 for lines in parts for line in lines)

    if not many_lines and not like_rows:
        assert cells(out.getvalue().encode()) == [["a", "b", "c"], *rows]


@given(st.binary(max_size=2_000))
def test_no_bytes_make_reading_fail_and_every_record_is_whole_or_says_why(raw):
    for record in read(HEADER + raw):
        assert bool(record.wrong) != (len(record.cells) == 3)
        assert record.line >= 1


@given(st.lists(st.sampled_from([b"1,2,3\n", b'1,"2,3\n', b"1,2\n", b"\xff,2,3\n"]), max_size=30))
def test_a_fault_costs_its_own_line_and_no_other(lines):
    good = sum(line == b"1,2,3\n" for line in lines)
    found = cells(HEADER + b"".join(lines))

    assert sum(row == ["1", "2", "3"] for row in found) == good


def test_an_open_quote_loses_one_row_and_the_naive_reader_loses_the_rest():
    raw = HEADER + b'1,"two,3\n' + b"4,5,6\n" * 100

    assert cells(raw).count(["4", "5", "6"]) == 100
    assert wrong(raw) == [(2, "a quote in it is never closed, or is out of place")]
    naive = list(csv.reader(io.StringIO(raw.decode())))
    assert naive.count(["4", "5", "6"]) == 0


def test_two_stray_quotes_do_not_swallow_what_is_between_them():
    raw = HEADER + b'1,"two,3\n' + b"4,5,6\n" * 5 + b'7,eight",9\n' + b"4,5,6\n"

    assert cells(raw).count(["4", "5", "6"]) == 6


def test_a_cell_may_go_over_lines_and_the_next_record_has_its_right_line():
    raw = HEADER + b'1,"two\nthree, four",5\n' + b"6,7\n"

    assert cells(raw)[1] == ["1", "two\nthree, four", "5"]
    assert wrong(raw) == [(4, "it has 2 cells where the first line has 3")]


def test_a_quote_inside_a_cell_is_a_letter():
    assert cells(HEADER + b'5" PIPES,THE "BEST" CO,3\n')[1] == ['5" PIPES', 'THE "BEST" CO', "3"]


def test_a_mark_at_the_beginning_crlf_and_empty_lines_do_not_matter():
    assert cells(b"\xef\xbb\xbfa,b,c\r\n\r\n1,2,3\r\n\n4,5,6") == [
        ["a", "b", "c"],
        ["1", "2", "3"],
        ["4", "5", "6"],
    ]


def test_bytes_that_are_no_text_are_refused_by_line():
    assert wrong(HEADER + b"caf\xe9,2,3\n1,2,3\n") == [(2, "it is not UTF-8 text")]


def test_a_line_of_any_length_is_left_out_and_the_next_one_is_read():
    raw = HEADER + b"x" * (3 * MAX_LINE_BYTES) + b",2,3\n4,5,6\n"

    assert cells(raw)[1:] == [["4", "5", "6"]]
    [(line, because)] = wrong(raw)
    assert (line, str(MAX_LINE_BYTES) in because) == (2, True)


def test_a_file_that_ends_inside_of_quotes_ends():
    assert wrong(HEADER + b'1,2,"3') == [(2, "a quote in it is never closed, or is out of place")]
    assert read(b"") == []


COLUMNS = {"url": ("url", "link"), "name": ("name", "full_name")}
LENIENT = TableLimits(line_bytes=1_000, record_lines=100, strict=False)


def rows(raw, **more):
    found = read_table(io.BytesIO(raw), COLUMNS, **more)
    return [(row.line, row.wrong or dict(row.cells)) for row in found]


def test_columns_go_by_any_of_their_names_and_others_are_left_out():
    raw = b"Age,Full-Name, LINK ,name\n7,Ann,a.test,Bo\n,,,\n8,,b.test,Cy\n"
    assert rows(raw) == [
        (2, {"url": "a.test", "name": "Bo"}),
        (4, {"url": "b.test", "name": "Cy"}),
    ]


@pytest.mark.parametrize("raw", [b"", b"name,age\n", b"x" * (MAX_LINE_BYTES + 1), b"\xff,url\n"])
def test_a_table_without_a_column_it_needs_is_refused_as_a_whole(raw):
    with pytest.raises(ConfigError, match="url"):
        rows(raw, required=("url",))


def test_json_lines_have_the_same_columns_and_survive_every_bad_neighbour():
    good = {"Link": "a.test", "age": 7, "name": 3}
    lines = [json.dumps(good).encode(), b"{", b"[]", b"x" * (MAX_LINE_BYTES + 1), b"", b"{}"]
    assert rows(b"\n".join(lines), json_lines=True, required=("url",)) == [
        (1, {"url": "a.test", "name": 3}),
        (2, "it is no JSON"),
        (3, "it is no JSON object"),
        (4, f"its line has more than {MAX_LINE_BYTES} bytes"),
        (6, {}),
    ]


def test_lenient_tables_take_rows_of_any_width_odd_bytes_and_long_texts():
    text = b"one, two\n" * 60
    raw = b'url,name\na.test\nb.test,caf\xe9,more\nc.test,"' + text + b'"\nd.test,"open\ne.test,E\n'
    assert rows(raw, limits=LENIENT) == [
        (2, {"url": "a.test"}),
        (3, {"url": "b.test", "name": "caf\ufffd"}),
        (4, {"url": "c.test", "name": text.decode()}),
        (65, "a quote in it is never closed, or is out of place"),
        (66, {"url": "e.test", "name": "E"}),
    ]
