"""XML-RPC as we write and read it, held against the standard library's and against nonsense."""

import xmlrpc.client as oracle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.base.errors import PermanentError
from stoker.crm.odoo_protocols import MAX_DEPTH, MAX_VALUES, Fault, encode_call, parse_response

controls = "".join(map(chr, set(range(32)) - {9, 10}))
letters = st.characters(exclude_categories=("Cs",), exclude_characters=controls + "\ufffe\uffff")
texts = st.text(letters, max_size=20)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**31) + 1, 2**31 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inside: (
        st.lists(inside, max_size=4)
        | st.dictionaries(texts.filter(lambda name: name == name.strip()), inside, max_size=4)
    ),
    max_leaves=15,
)


def answer(value):
    return oracle.dumps((value,), methodresponse=True, allow_none=True).encode()


@given(st.lists(values, max_size=3))
def test_what_we_write_the_others_read(params):
    read, method = oracle.loads(encode_call("do", tuple(params)))
    assert (list(read), method) == (params, "do")


@given(values)
def test_what_the_others_write_we_read(value):
    assert parse_response(answer(value)) == value


def test_a_carriage_return_arrives():
    (read,), _ = oracle.loads(encode_call("do", ("a\r\nb",)))
    assert read == "a\r\nb"


def test_a_fault_is_a_number_and_a_text():
    fault = oracle.dumps(oracle.Fault(3, "Access Denied"), methodresponse=True).encode()
    assert parse_response(fault) == Fault(3, "Access Denied")


@pytest.mark.parametrize("bad", ["a\0", "\x1b", "\ud800", "\uffff", 2**31, float("inf")])
def test_what_cannot_be_written_is_refused(bad):
    with pytest.raises(PermanentError):
        encode_call("do", (bad,))


def nested(many):
    opened, closed = "<value><array><data>" * many, "</data></array></value>" * many
    return f"<methodResponse><params><param>{opened}{closed}</param></params></methodResponse>"


def listed(inside):
    return (
        "<methodResponse><params><param><value><array><data>"
        f"{inside}</data></array></value></param></params></methodResponse>"
    )


@pytest.mark.parametrize(
    "body",
    [
        "",
        "{}",
        "<html/>",
        "<methodResponse/>",
        nested(MAX_DEPTH * 4),
        listed("<value/>" * (MAX_VALUES + 1)),
        listed(f"<value><int>{'9' * 5000}</int></value>"),
        listed("<value><int>x</int></value>"),
        listed("<value><boolean>2</boolean></value>"),
        listed("<value><double>nan</double></value>"),
        listed("<value><struct><member><value>1</value></member></struct></value>"),
        '<!DOCTYPE x [<!ENTITY a "aa">]>' + listed("<value>&a;</value>"),
        '<!DOCTYPE x SYSTEM "http://elsewhere.test/x.dtd">' + listed(""),
    ],
    ids=range(13),
)
def test_what_is_no_answer_is_refused(body):
    with pytest.raises(PermanentError):
        parse_response(body.encode())


@given(st.binary(max_size=300))
def test_no_bytes_get_past_the_reader(body):
    for each in (body, b"<methodResponse><params><param><value>" + body):
        with pytest.raises(PermanentError):
            parse_response(each)
