"""How the sandbox's Odoo refuses: loads, rights and databases, as seen on a real 19 server."""

import pytest

from running_box import RunningBox

KEY = "odoo-acme-s3cret"
PARTNER, LEAD = "res.partner", "crm.lead"


@pytest.fixture
def box():
    with RunningBox(companies=1) as running:
        yield running


def ask(box, model, method, *, key=KEY, db="acme", **arguments):
    headers = {"Authorization": f"bearer {key}", "X-Odoo-Database": db}
    return box.ask("odoo.test", "POST", f"/json/2/{model}/{method}", arguments, headers=headers)


def call(box, model, method, **arguments):
    return ask(box, model, method, **arguments).parse_json()


def load(box, model, fields, *rows, **more):
    return call(box, model, "load", fields=fields, data=[list(row) for row in rows], **more)


def refused(told):
    assert told["ids"] is False
    return [each.get("record") for each in told["messages"]]


def test_errors_of_conversion_are_all_named_with_their_field(box):
    rows = [[f"t.{n}", "L", "9"] for n in range(50)]
    told = load(box, LEAD, ["id", "name", "priority"], *rows)

    assert refused(told) == list(range(50))
    assert {each["field"] for each in told["messages"]} == {"priority"}
    told = load(box, LEAD, ["id", "name", "partner_id/id"], ["t.l", "L", "t.none"])
    assert told["messages"][0]["field"] == "partner_id/id"
    assert told["messages"][0]["moreinfo"]


def test_errors_of_writing_stop_after_ten_with_a_warning(box):
    told = load(box, PARTNER, ["id", "name"], *([f"t.{n}", ""] for n in range(52)))

    assert refused(told) == [*range(10), None]
    assert {each["message"] for each in told["messages"][:-1]} == {"Contacts require a name"}
    assert all("field" not in each for each in told["messages"])
    last = told["messages"][-1]
    assert last["type"] == "warning"
    assert "more than 10 errors" in last["message"]


def test_ten_errors_in_many_good_rows_are_no_reason_to_stop(box):
    names = ["" if n % 15 == 14 else "N" for n in range(180)]
    told = load(box, PARTNER, ["id", "name"], *([f"t.{n}", name] for n, name in enumerate(names)))

    assert refused(told) == [n for n in range(180) if n % 15 == 14]


@pytest.mark.parametrize(
    ("rows", "blamed"),
    [(["good", "bad"], [0, 1]), (["bad", "good"], [0]), (["good", "bad", "more"], [0, 1])],
)
def test_the_first_row_is_blamed_for_a_record_of_another_company(box, rows, blamed):
    fields = ["id", "name", "is_company"]
    load(box, PARTNER, fields, *([f"t.{name}", name, "1"] for name in ("good", "bad", "more")))
    [theirs] = call(box, PARTNER, "search", domain=[["name", "=", "bad"]])
    call(box, PARTNER, "write", ids=[theirs], vals={"company_id": 2})
    data = [[f"t.lead_{name}", name, f"t.{name}"] for name in rows]
    told = load(box, LEAD, ["id", "name", "partner_id/id"], *data)

    assert refused(told) == blamed
    assert all("another company" in each["message"] for each in told["messages"])
    assert all("field" not in each for each in told["messages"])
    assert load(box, LEAD, ["id", "name", "partner_id/id"], ["t.l", "L", "t.good"])["ids"]


def test_with_invoicing_a_salesman_cannot_load_new_contacts_of_a_company(box):
    box.faults.set_value("odoo.apps", "crm account")
    fields, row = ["id", "name", "parent_id/id"], ["t.p", "Pia", "t.c"]
    load(box, PARTNER, ["id", "name", "is_company"], ["t.c", "C", "1"])
    told = load(box, PARTNER, fields, row)

    assert refused(told) == [0]
    assert "credit_limit" in told["messages"][0]["message"]
    assert "field" not in told["messages"][0]
    assert load(box, PARTNER, fields[:2], row[:2])["ids"]
    assert load(box, PARTNER, fields, row)["ids"]
    assert load(box, PARTNER, fields, ["t.q", "Quin", "t.c"], key="odoo-acme-accounting-ana")["ids"]
    [company] = call(box, PARTNER, "search", domain=[["name", "=", "C"]])
    assert call(box, PARTNER, "create", vals_list=[{"name": "Raj", "parent_id": company}])


def test_a_required_field_that_people_added_is_named_though_it_was_not_sent(box):
    box.faults.set_value("odoo.required", "crm.lead.x_channel res.partner.x_code")
    told = load(box, LEAD, ["id", "name"], ["t.l", "L"])

    assert told["messages"][0]["field"] == "x_channel"
    assert "'Channel' (x_channel)" in told["messages"][0]["message"]
    assert call(box, LEAD, "fields_get", attributes=["required"])["x_channel"] == {"required": True}
    assert load(box, LEAD, ["id", "name", "x_channel"], ["t.l", "L", "web"])["ids"]
    assert load(box, LEAD, ["id", "name"], ["t.l", "M"])["ids"]  # it has one already
    assert load(box, PARTNER, ["id", "name"], ["t.p", "P"])["ids"]  # old rows have none


def test_a_selection_takes_codes_and_labels(box):
    fields = ["id", "name", "priority", "type"]
    ids = load(box, LEAD, fields, ["t.a", "A", "Very High", "Lead"], ["t.b", "B", "3", "lead"])
    records = call(box, LEAD, "read", ids=ids["ids"], fields=["priority", "type"])

    assert [(each["priority"], each["type"]) for each in records] == [("3", "lead")] * 2


def test_an_unknown_column_is_an_error_and_an_id_of_another_model_has_no_field(box):
    told = ask(box, PARTNER, "load", fields=["id", "colour"], data=[["t.p", "red"]])
    assert told.status == 500
    assert told.parse_json()["name"] == "builtins.ValueError"
    assert told.parse_json()["message"] == "Invalid field name 'colour'"

    load(box, PARTNER, ["id", "name"], ["t.p", "P"])
    told = load(box, LEAD, ["id", "name"], ["t.p", "L"])
    assert refused(told) == [0]
    assert "field" not in told["messages"][0]


def test_an_external_id_alone_is_a_question(box):
    [made] = load(box, PARTNER, ["id", "name"], ["t.p", "P"])["ids"]

    assert load(box, PARTNER, ["id"], ["t.p"])["ids"] == [made]
    assert (
        load(box, PARTNER, ["id"], ["t.q"])["messages"][0]["message"] == "Contacts require a name"
    )


@pytest.mark.parametrize(
    ("language", "words"), [("", "could not serialize"), ("de_DE", "konnte Zugriff nicht")]
)
def test_a_lost_race_is_worded_in_the_language_of_the_database(box, language, words):
    box.faults.set_value("odoo.races", 1)
    box.faults.set_value("odoo.language", language)
    told = load(box, PARTNER, ["id", "name"], ["t.p", "P"])

    assert words in told["messages"][0]["message"]
    assert "field" not in told["messages"][0]


@pytest.mark.parametrize("db", ["missing", ""])
def test_without_a_database_the_answer_is_a_page(box, db):
    told = ask(box, PARTNER, "search", db=db, key=f"odoo-{db}-s3cret", domain=[])

    assert told.status == 404
    assert told.headers["content-type"].startswith("text/html")
    assert b"No database is selected" in told.body


def test_a_database_that_is_away_looks_like_none_and_one_that_goes_like_a_fault(box):
    load(box, PARTNER, ["id", "name"], ["t.p", "P"])
    box.faults.set_value("odoo.away", 1)
    assert (
        ask(box, PARTNER, "search", domain=[]).status,
        b"<h1>" in ask(box, PARTNER, "search", domain=[]).body,
    ) == (404, True)
    box.faults.set_value("odoo.away", 2)
    told = ask(box, PARTNER, "load", fields=["id", "name"], data=[["t.q", "Q"]])
    assert (told.status, told.parse_json()["name"]) == (500, "psycopg2.InterfaceError")
    box.faults.set_value("odoo.away", 0)
    assert len(call(box, PARTNER, "search", domain=[])) == 1


def test_without_the_crm_app_there_are_no_leads(box):
    box.faults.set_value("odoo.apps", "none")

    told = ask(box, LEAD, "search", domain=[])
    assert (told.status, told.parse_json()["name"]) == (404, "werkzeug.exceptions.NotFound")
    assert load(box, PARTNER, ["id", "name"], ["t.p", "P"])["ids"]


RIGHTS = {  # by whose key: what may be done with partners and with leads
    "ours": ("read write create unlink", "read write create"),
    "own-raj": ("read write create unlink", "read write create"),
    "human-mei": ("read write create unlink", "read write create unlink"),
    "contacts-tom": ("read write create unlink", ""),
    "internal-ida": ("read", ""),
}


@pytest.mark.parametrize("who", RIGHTS)
def test_each_user_may_do_what_the_groups_allow_and_can_ask_for_it(box, who):
    for model, allowed in zip((PARTNER, LEAD), RIGHTS[who], strict=True):
        for operation in ("read", "write", "create", "unlink"):
            told = call(box, model, "has_access", key=f"odoo-acme-{who}-x", operation=operation)
            assert told is (operation in allowed.split()), (model, operation)


def test_a_right_that_is_missing_is_named_with_the_groups_that_have_it(box):
    told = ask(box, LEAD, "create", key="odoo-acme-contacts-tom", vals_list=[{"name": "L"}])

    assert (told.status, told.parse_json()["name"]) == (403, "odoo.exceptions.AccessError")
    assert "Sales / User: Own Documents Only" in told.parse_json()["message"]
    data = {"fields": ["id", "name"], "data": [["t.l", "L"]]}
    assert ask(box, LEAD, "load", key="odoo-acme-internal-ida", **data).status == 403
    [made] = load(box, LEAD, ["id", "name"], ["t.l", "L"])["ids"]
    assert ask(box, LEAD, "unlink", ids=[made]).status == 403
    assert call(box, LEAD, "unlink", key="odoo-acme-human-mei", ids=[made]) is True


def test_a_lead_of_another_is_neither_found_nor_read_nor_written(box):
    own = "odoo-acme-own-raj"
    [made] = load(box, LEAD, ["id", "name"], ["t.l", "L"])["ids"]

    assert call(box, LEAD, "search", key=own, domain=[]) == []
    assert ask(box, LEAD, "read", key=own, ids=[made]).status == 403
    assert ask(box, LEAD, "write", key=own, ids=[made], vals={"phone": "1"}).status == 403
    told = load(box, LEAD, ["id", "name"], ["t.l", "M"], key=own)
    assert refused(told) == [0]
    assert "field" not in told["messages"][0]


def test_an_external_id_can_be_looked_up_by_a_salesman(box):
    own = "odoo-acme-own-raj"

    def look(name, key=KEY, **context):
        asked = {"module": "t", "xml_id": name, "context": context}
        return ask(box, "ir.model.data", "check_object_reference", key=key, **asked)

    [made] = load(box, PARTNER, ["id", "name"], ["t.p", "P"])["ids"]
    [lead] = load(box, LEAD, ["id", "name"], ["t.l", "L"])["ids"]
    assert look("p").parse_json() == [PARTNER, made]
    assert look("l").parse_json() == [LEAD, lead]
    assert look("l", own).parse_json() == [LEAD, False]
    call(box, PARTNER, "write", ids=[made], vals={"active": False})
    assert look("p").parse_json() == [PARTNER, False]
    assert look("p", active_test=False).parse_json() == [PARTNER, made]
    gone = look("none")
    assert (gone.status, gone.parse_json()["name"]) == (500, "builtins.ValueError")
    assert "External ID not found" in gone.parse_json()["message"]


def test_a_record_that_is_gone_is_read_as_nothing(box):
    assert ask(box, PARTNER, "read", ids=[999_999]).parse_json() == []
