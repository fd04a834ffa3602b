"""The sandbox Odoo, asked over raw HTTP: what was seen on a real 19 server, said again."""

import json
import xmlrpc.client as xmlrpc
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from running_box import RunningBox
from stoker.sandbox.vendors.odoo.database import Database
from stoker.sandbox.vendors.odoo.load import LOST_RACE, load_rows
from stoker.sandbox.vendors.odoo.xmlrpc import read_call

KEY, HUMAN = "odoo-acme-s3cret", "odoo-acme-human-mei"


@pytest.fixture(scope="module")
def box():
    with RunningBox(companies=10) as running:
        yield running


def call(box, model, method, *, key=KEY, db="acme", **arguments):
    headers = {"Authorization": f"bearer {key}", "X-Odoo-Database": db}
    return box.ask("odoo.test", "POST", f"/json/2/{model}/{method}", arguments, headers=headers)


def loaded(box, fields, *rows, model="res.partner", **more):
    return call(
        box, model, "load", fields=fields, data=[list(row) for row in rows], **more
    ).parse_json()


def read(box, id_, *fields, model="res.partner"):
    return call(box, model, "read", ids=[id_], fields=list(fields)).parse_json()[0]


def rpc(box, path, method, *params):
    body = xmlrpc.dumps(params, method, allow_none=True).encode()
    answer = box.ask("odoo.test", "POST", f"/xmlrpc/2/{path}", body=body)
    assert answer.status == 200
    (value,), _ = xmlrpc.loads(answer.body)
    return value


def test_the_version_needs_no_key(box):
    told = box.ask("odoo.test", "GET", "/web/version")

    assert told.parse_json() == {"version_info": [19, 0, 0, "final", 0, ""], "version": "19.0"}


def test_the_first_load_creates_and_the_second_updates_the_same_record(box):
    first = loaded(box, ["id", "name", "is_company"], ["t.one", "One", "1"])
    again = loaded(box, ["id", "name"], ["t.one", "One more"])

    assert set(first) == {"ids", "messages", "nextrow"}
    assert first["ids"] == again["ids"]
    assert first["messages"] == []
    assert read(box, first["ids"][0], "name", "is_company") == {
        "id": first["ids"][0],
        "name": "One more",
        "is_company": True,
    }


def test_a_parent_and_its_child_go_in_one_call(box):
    told = loaded(
        box,
        ["id", "name", "is_company", "company_registry", "parent_id/id"],
        ["t.parent", "Parent", "1", "200900001A", ""],
        ["t.child", "Child", "0", "", "t.parent"],
    )

    assert read(box, told["ids"][1], "parent_id", "display_name") == {
        "id": told["ids"][1],
        "parent_id": [told["ids"][0], "Parent"],
        "display_name": "Parent, Child",
    }


def test_a_search_by_number_also_returns_the_companys_contacts(box):
    company, contact = loaded(
        box,
        ["id", "name", "is_company", "company_registry", "parent_id/id"],
        ["t.c2", "C2", "1", "200900002B", ""],
        ["t.p2", "P2", "0", "", "t.c2"],
    )["ids"]
    domain = [["company_registry", "=", "200900002B"]]

    assert call(box, "res.partner", "search", domain=domain).parse_json() == [company, contact]
    domain.append(["is_company", "=", True])
    assert call(box, "res.partner", "search", domain=domain).parse_json() == [company]


def test_one_bad_row_and_nothing_is_written(box):
    before = call(box, "res.partner", "search_count", domain=[]).parse_json()
    told = loaded(box, ["id", "name", "parent_id/id"], ["t.x", "X", ""], ["t.y", "Y", "t.nobody"])

    assert told["ids"] is False
    (message,) = told["messages"]
    assert {"rows", "type", "record", "field", "message"} <= set(message)
    assert message["rows"] == {"from": 1, "to": 1}
    assert message["type"] == "error"
    assert message["record"] == 1
    assert "t.nobody" in message["message"]
    assert call(box, "res.partner", "search_count", domain=[]).parse_json() == before


def test_a_blank_cell_clears_and_a_column_not_sent_stays(box):
    (id_,) = loaded(box, ["id", "name", "email", "phone"], ["t.b", "B", "b@b.test", "1"])["ids"]
    loaded(box, ["id", "email"], ["t.b", ""])

    assert read(box, id_, "email", "phone") == {"id": id_, "email": False, "phone": "1"}


def test_the_same_external_id_twice_in_one_call_and_the_last_row_wins(box):
    told = loaded(box, ["id", "name"], ["t.twice", "First"], ["t.twice", "Last"])

    assert told["ids"][0] == told["ids"][1]
    assert read(box, told["ids"][0], "name")["name"] == "Last"


def test_a_deleted_record_is_created_anew_and_an_archived_one_stays_archived(box):
    gone, archived = loaded(box, ["id", "name"], ["t.gone", "G"], ["t.arch", "A"])["ids"]
    call(box, "res.partner", "unlink", ids=[gone])
    call(box, "res.partner", "write", ids=[archived], vals={"active": False})
    again = loaded(box, ["id", "name"], ["t.gone", "G2"], ["t.arch", "A2"])["ids"]

    assert again[0] != gone
    assert again[1] == archived
    assert read(box, archived, "name", "active") == {"id": archived, "name": "A2", "active": False}
    found = call(box, "res.partner", "search", domain=[["name", "=", "A2"]])
    assert found.parse_json() == []
    context = {"active_test": False}
    found = call(box, "res.partner", "search", domain=[["name", "=", "A2"]], context=context)
    assert found.parse_json() == [archived]


def test_leads_have_tags_and_a_partner_by_external_id(box):
    loaded(box, ["id", "name"], ["t.tag1", "Hot"], ["t.tag2", "New"], model="crm.tag")
    loaded(box, ["id", "name"], ["t.lp", "Partner"])
    (id_,) = loaded(
        box,
        ["id", "name", "type", "partner_id/id", "tag_ids/id", "priority", "country_id/id"][:6],
        ["t.lead", "Lead", "lead", "t.lp", "t.tag1,t.tag2", "2"],
        model="crm.lead",
    )["ids"]
    lead = read(box, id_, "tag_ids", "partner_id", "priority", model="crm.lead")

    assert len(lead["tag_ids"]) == 2
    assert lead["partner_id"][1] == "Partner"
    assert lead["priority"] == "2"
    assert loaded(box, ["id", "name"], ["t.l2", ""], model="crm.lead")["ids"] is False


def test_an_activity_is_tied_to_a_record_by_model_and_id(box):
    (partner,) = loaded(box, ["id", "name"], ["t.act", "Act"])["ids"]
    fields = ["id", "res_model_id/id", "res_id", "date_deadline", "summary"]
    (id_,) = loaded(
        box,
        fields,
        ["t.todo", "base.model_res_partner", partner, "2026-11-20", "Call them"],
        model="mail.activity",
    )["ids"]
    activity = read(box, id_, "res_id", "date_deadline", model="mail.activity")

    assert activity == {"id": id_, "res_id": partner, "date_deadline": "2026-11-20"}
    without = loaded(box, ["id", "summary"], ["t.t2", "No date"], model="mail.activity")
    assert without["ids"] is False


def test_a_persons_edit_is_told_from_ours(box):
    (id_,) = loaded(box, ["id", "name"], ["t.human", "Ours"])["ids"]
    before = read(box, id_, "write_uid", "write_date")
    call(box, "res.partner", "write", key=HUMAN, ids=[id_], vals={"phone": "999"})
    after = read(box, id_, "write_uid", "write_date")

    assert before["write_uid"] == [2, "Stoker Integration"]
    assert after["write_uid"] == [3, "Mei Tan"]
    assert after["write_date"] > before["write_date"]


def test_external_ids_can_be_asked_for_though_their_table_is_closed(box):
    (id_,) = loaded(box, ["id", "name"], ["t.ext", "E"])["ids"]

    assert call(box, "res.partner", "get_external_id", ids=[id_]).parse_json() == {
        str(id_): "t.ext"
    }
    refused = call(box, "ir.model.data", "search_read", domain=[])
    assert refused.status == 403
    assert refused.parse_json()["name"] == "odoo.exceptions.AccessError"


@pytest.mark.parametrize(
    ("model", "method", "arguments", "status"),
    [
        ("res.nothing", "search", {"domain": []}, 404),
        ("res.partner", "nothing", {}, 404),
        ("res.partner", "write", {"ids": [999_999], "vals": {"phone": "1"}}, 404),
        ("res.partner", "write", {"ids": [1], "vals": {"colour": "1"}}, 500),
        ("res.partner", "search", {"domain": [], "ids": [1]}, 422),
        ("res.partner", "search", {"domain": [["name", "about", "x"]]}, 500),
        ("res.partner", "export_data", {"fields_to_export": ["name"]}, 422),
        ("ir.model.data", "search", {"domain": []}, 403),
        ("res.partner", "_private", {}, 403),
        ("res.country", "create", {"vals_list": [{"name": "Atlantis"}]}, 403),
        ("res.partner", "search", {"domain": [], "colour": 1}, 422),
        ("res.partner", "search", {}, 422),
        ("res.partner", "create", {"vals_list": [{"mobile": "1"}]}, 500),
        ("res.partner", "search", {"domain": [["mobile", "=", "1"]]}, 500),
        ("crm.lead", "create", {"vals_list": [{"type": "lead"}]}, 422),
    ],
)
def test_errors_are_the_ones_a_real_server_gives(box, model, method, arguments, status):
    told = call(box, model, method, **arguments)

    assert told.status == status
    assert set(told.parse_json()) == {"name", "message", "arguments", "context", "debug"}
    assert "Traceback" in told.parse_json()["debug"]
    if "mobile" in json.dumps(arguments):
        assert told.parse_json()["name"] == "builtins.ValueError"


@pytest.mark.parametrize(("key", "db"), [("odoo-acme-wrong", "acme"), ("", "acme"), (KEY, "other")])
def test_a_key_opens_its_own_database_and_no_other(box, key, db):
    told = call(box, "res.partner", "search", key=key, db=db, domain=[])

    assert told.status == 401
    assert told.parse_json()["name"] == "werkzeug.exceptions.Unauthorized"


def test_fields_are_described_and_mobile_is_not_among_them(box):
    told = call(box, "res.partner", "fields_get", attributes=["type", "string"]).parse_json()

    assert told["company_registry"] == {"type": "char", "string": "Company ID"}
    assert "mobile" not in told


def test_two_loads_of_one_record_at_once_and_one_of_them_loses():
    with RunningBox(companies=1, dials={"odoo.latency": "300ms"}) as box:
        with ThreadPoolExecutor(8) as crowd:
            told = list(
                crowd.map(lambda n: loaded(box, ["id", "name"], ["t.r", f"R{n}"]), range(8))
            )
        lost = [each for each in told if each["ids"] is False]
        box.faults.set_value("odoo.latency", "0s")
        found = call(box, "res.partner", "search", domain=[["name", "!=", False]]).parse_json()

    assert lost
    assert all(LOST_RACE in each["messages"][0]["message"] for each in lost)
    assert len(lost) < 8
    assert len(found) == 1


def test_lost_races_can_be_dialled_and_write_nothing():
    with RunningBox(companies=1, dials={"odoo.races": 1}) as box:
        assert loaded(box, ["id", "name"], ["t.r", "R"])["ids"] is False
        assert call(box, "res.partner", "search_count", domain=[]).parse_json() == 0
        assert "odoo" not in box.box.charges


def test_over_xml_rpc_a_right_password_gives_the_user_and_a_wrong_one_false(box):
    assert rpc(box, "common", "version")["server_version_info"] == [19, 0, 0, "final", 0, ""]
    assert rpc(box, "common", "authenticate", "acme", "stoker", KEY, {}) == 2
    assert rpc(box, "common", "authenticate", "acme", "mei", HUMAN, {}) == 3
    assert rpc(box, "common", "authenticate", "acme", "stoker", "odoo-acme-wrong", {}) is False


def test_over_xml_rpc_everything_is_as_over_json(box):
    def execute(method, *args, model="res.partner", **kwargs):
        return rpc(box, "object", "execute_kw", "acme", 2, KEY, model, method, list(args), kwargs)

    told = execute("load", ["id", "name"], [["t.xml", "X & <Y>"]])
    (id_,) = told["ids"]
    loaded(box, ["id", "phone"], ["t.xml", "\x01bell"])  # a letter that XML does not have

    assert execute("search", [["id", "=", id_]]) == [id_]
    assert execute("read", [id_], ["name", "phone"]) == [
        {"id": id_, "name": "X & <Y>", "phone": "bell"}
    ]
    assert execute("write", [id_], {"name": "Z"}) is True
    assert execute("search_read", [["name", "=", "Z"]], fields=["name"], limit=1)[0]["id"] == id_
    assert execute("get_metadata", [id_])[0]["xmlid"] == "t.xml"
    with pytest.raises(xmlrpc.Fault, match="dictionary key must be string"):
        execute("get_external_id", [id_])
    assert execute("create", {"name": "One"}) == execute("create", [{"name": "Two"}])[0] - 1
    assert execute("load", ["id", "name"], [["t.q", "Q"]], context={"lang": "en_US"})["ids"]
    assert execute("unlink", [id_]) is True


def test_over_xml_rpc_errors_are_faults(box):
    def fault(*params):
        with pytest.raises(xmlrpc.Fault) as caught:
            rpc(box, "object", "execute_kw", *params)
        return caught.value

    denied = fault("acme", 2, "odoo-acme-wrong", "res.partner", "search", [[]])
    assert (denied.faultCode, denied.faultString) == (3, "Access Denied")
    blown = fault("acme", 2, KEY, "res.partner", "create", [{"mobile": "1"}])
    assert blown.faultCode == 1
    assert "Traceback" in blown.faultString
    assert fault("acme", 2, KEY, "ir.model.data", "search", [[]]).faultCode == 4
    assert fault("acme", 2, KEY, "res.partner", "write", [[999_999], {}]).faultCode == 2
    gone = fault("missing", 2, KEY, "res.partner", "search", [[]])
    assert 'database "missing" does not exist' in gone.faultString


BOMB = (
    '<?xml version="1.0"{}?><!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]>'
    "<methodCall><methodName>version</methodName><params><param><value>&b;</value></param>"
    "</params></methodCall>"
)


@pytest.mark.parametrize(
    "body",
    [
        BOMB.format("").encode(),
        BOMB.format(' encoding="utf-16"').encode("utf-16"),
        b"<!DOCTYPE x SYSTEM 'file:///etc/passwd'><methodCall/>",
    ],
)
def test_a_document_that_declares_anything_is_refused_unread(box, body):
    answer = box.ask("odoo.test", "POST", "/xmlrpc/2/common", body=body)

    with pytest.raises(xmlrpc.Fault, match="document type"):
        xmlrpc.loads(answer.body)


def test_a_call_nested_without_end_is_refused():
    deep = b"<value><array><data>" * 200 + b"</data></array></value>" * 200
    body = b"<methodCall><methodName>x</methodName><params><param>%b</param></params></methodCall>"

    with pytest.raises(ValueError, match="nested too deeply"):
        read_call(body % deep)


plain = st.text("abc<>& 019é", max_size=8).map(str.strip)
sent = st.recursive(
    st.booleans() | st.integers(-(2**31), 2**31 - 1) | plain,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(plain, inner, max_size=3),
    max_leaves=6,
)


@given(st.lists(sent, max_size=4).map(tuple), st.sampled_from(["execute_kw", "version"]))
def test_a_call_is_read_as_it_was_written(params, method):
    body = xmlrpc.dumps(params, method).encode()
    assert read_call(body) == (method, params)


@given(
    st.lists(sent, max_size=4).map(tuple),
    st.binary(max_size=40),
    st.integers(0, 2_000),
    st.integers(0, 60),
)
def test_whatever_arrives_as_xml_is_a_call_or_a_value_error(params, piece, at, many):
    whole = xmlrpc.dumps(params, "execute_kw").encode()
    at = at % (len(whole) + 1)
    for body in (piece, whole[:at] + piece + whole[at + many :]):
        try:
            method, read = read_call(body)
        except ValueError:
            continue
        assert isinstance(method, str)
        assert isinstance(read, tuple)


cells = st.sampled_from(["", "a", "b", "m.a", "m.b", "1", "x,y"])
tables = st.lists(st.tuples(cells, cells, cells), max_size=6)


@settings(deadline=None)
@given(st.lists(tables, max_size=4))
def test_a_load_writes_all_of_its_rows_or_none_and_one_record_per_external_id(loads):
    database = Database("x")
    for rows in loads:
        before = json.dumps(database.records, default=str)
        told = load_rows(database, "res.partner", ["id", "name", "parent_id/id"], rows, uid=2)
        if told["ids"] is False:
            assert told["messages"]
            assert json.dumps(database.records, default=str) == before
        else:
            assert len(told["ids"]) == len(rows)
        bound = [place for place in database.external.values() if place[0] == "res.partner"]
        assert len(bound) == len(set(bound))


def test_a_record_may_go_by_several_names_and_loses_them_all_with_its_life():
    database = Database("x")
    (id_,) = load_rows(database, "res.partner", ["id", "name"], [["t.b", "A"]], uid=2)["ids"]
    for name in ("t.c", "t.a", "t.a"):  # twice is once
        database.bind(name, "res.partner", id_)
    assert database.list_external_ids("res.partner", [id_]) == {id_: ["t.a", "t.b", "t.c"]}
    (other,) = load_rows(database, "res.partner", ["id", "name"], [["t.a", "B"]], uid=2)["ids"]
    assert other == id_
    database.unlink("res.partner", [id_], uid=2)
    assert not {"t.a", "t.b", "t.c"} & database.external.keys()
