"""What the sandbox's Odoo changes besides what was written, as seen on a real 19 server."""

import json

import pytest

from running_box import RunningBox

KEY, HUMAN, OWN = "odoo-acme-s3cret", "odoo-acme-human-mei", "odoo-acme-own-raj"
US, MEI = [2, "Stoker Integration"], [3, "Mei Tan"]


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
    told = call(box, model, "load", fields=fields, data=[list(row) for row in rows], **more)
    assert told["ids"], told
    return told["ids"]


def partner(box, *cells, fields=("id", "name", "is_company", "email", "phone"), **more):
    return load(box, "res.partner", list(fields), cells, **more)[0]


def lead(box, **cells):
    cells = {"id": "t.lead", "name": "Lead", **cells}
    return load(box, "crm.lead", list(cells), cells.values())[0]


def read(box, model, id_, *fields, key=HUMAN):
    [record] = call(box, model, "read", key=key, ids=[id_], fields=list(fields))
    return {name: record[name] for name in fields}


@pytest.mark.parametrize(("column", "own"), [("email_from", "email"), ("phone", "phone")])
def test_a_leads_address_is_written_to_its_customer_and_to_all_leads_of_it(box, column, own):
    company = partner(box, "t.c", "C", "1", "front@c.test", "+65 6000 0000")
    theirs = call(
        box, "crm.lead", "create", key=HUMAN, vals_list={"name": "Hers", "partner_id": company}
    )
    lead(box, **{"partner_id/id": "t.c", column: "12345"})

    assert read(box, "res.partner", company, own, "write_uid") == {own: "12345", "write_uid": US}
    assert read(box, "crm.lead", theirs, column, "write_uid") == {column: "12345", "write_uid": US}


def test_the_same_address_in_other_letters_and_an_empty_one_are_not_written_through(box):
    company = partner(box, "t.c", "C", "1", "Front@c.test", "+65 6000-0000")
    made = lead(box, **{"partner_id/id": "t.c", "email_from": "front@C.test", "phone": ""})

    shown = read(box, "res.partner", company, "email", "email_normalized", "phone")
    assert shown == {
        "email": "Front@c.test",
        "email_normalized": "front@c.test",
        "phone": "+65 6000-0000",
    }
    assert read(box, "crm.lead", made, "phone")["phone"] == "+65 6000-0000"


def test_an_archived_lead_writes_through_too_and_a_cleared_address_stays_in_leads(box):
    company = partner(box, "t.c", "C", "1", "", "")
    made = lead(box, **{"partner_id/id": "t.c", "active": "0"})
    call(box, "crm.lead", "write", ids=[made], vals={"email_from": "a@c.test"})
    assert read(box, "res.partner", company, "email")["email"] == "a@c.test"

    call(box, "res.partner", "write", key=HUMAN, ids=[company], vals={"email": False})
    assert read(box, "crm.lead", made, "email_from")["email_from"] == "a@c.test"
    call(box, "res.partner", "write", key=HUMAN, ids=[company], vals={"email": "b@c.test"})
    assert read(box, "crm.lead", made, "email_from")["email_from"] == "b@c.test"


def test_a_lead_on_a_person_is_filled_from_the_person_and_its_company(box):
    company = partner(box, "t.c", "C", "1", "", "")
    fields = ("id", "name", "parent_id/id", "email", "function", "website")
    partner(box, "t.p", "Pia", "t.c", "pia@c.test", "CTO", "c.test", fields=fields)
    made = lead(box, **{"partner_id/id": "t.p", "function": "Chief"})

    assert read(
        box,
        "crm.lead",
        made,
        "contact_name",
        "partner_name",
        "email_from",
        "website",
        "function",
        "commercial_partner_id",
    ) == {
        "contact_name": "Pia",
        "partner_name": "C",
        "email_from": "pia@c.test",
        "website": "http://c.test",
        "function": "Chief",
        "commercial_partner_id": [company, "C"],
    }


def test_a_new_lead_is_the_callers_opportunity_unless_it_is_given_to_no_one(box):
    made, open_ = lead(box), lead(box, id="t.open", user_id="")
    defaults = ("user_id", "team_id", "type", "priority", "stage_id", "company_id")

    assert read(box, "crm.lead", made, *defaults) == {
        "user_id": US,
        "team_id": [1, "Sales"],
        "type": "opportunity",
        "priority": "0",
        "stage_id": [1, "New"],
        "company_id": [1, "Our Company"],
    }
    assert read(box, "crm.lead", open_, "user_id", "team_id") == {
        "user_id": False,
        "team_id": False,
    }
    assert call(box, "crm.lead", "search", key=OWN, domain=[]) == [open_]


def test_the_leads_option_decides_what_a_new_lead_is_and_can_be_asked_for(box):
    me = call(box, "res.users", "context_get")["uid"]

    def uses_leads():
        group = {"group_ext_id": "crm.group_use_lead"}
        asked = call(box, "res.users", "has_group", ids=[me], **group)
        return asked, call(box, "crm.lead", "default_get", fields=["type"])["type"]

    assert uses_leads() == (False, "opportunity")
    box.faults.set_value("odoo.leads", 1)
    assert uses_leads() == (True, "lead")
    assert read(box, "crm.lead", lead(box), "type")["type"] == "lead"


def test_an_archived_lead_without_a_chance_is_counted_as_lost_until_it_comes_back(box):
    made, kept = lead(box), lead(box, id="t.kept", probability="1")

    def count():
        rows = call(box, "crm.lead.scoring.frequency", "search_read", key=HUMAN, domain=[])
        return {each["variable"]: round(each["lost_count"] - 0.1) for each in rows}

    call(box, "crm.lead", "write", ids=[made, kept], vals={"active": False})
    assert count() == {"stage_id": 1, "team_id": 1}
    assert read(box, "crm.lead", made, "won_status")["won_status"] == "lost"
    assert read(box, "crm.lead", kept, "won_status")["won_status"] == "pending"
    call(box, "crm.lead", "write", ids=[made], vals={"active": True})
    assert set(count().values()) == {0}


@pytest.mark.parametrize(
    "change", [{"comment": "x"}, {"zip": "1"}, {"name": "D"}, {"phone": "1"}, {"active": False}]
)
def test_any_write_to_a_company_is_one_to_its_contacts(box, change):
    company = partner(box, "t.c", "C", "1", "", "")
    fields = ("id", "name", "parent_id/id")
    contact = partner(box, "t.p", "Pia", "t.c", fields=fields)
    other = partner(box, "t.o", "Other", "", fields=fields)
    before = read(box, "res.partner", other, "write_uid", "write_date")
    moment = read(box, "res.partner", contact, "write_date")["write_date"]
    call(box, "res.partner", "write", key=HUMAN, ids=[company], vals=change)

    shown = read(box, "res.partner", contact, "write_uid", "write_date", "active")
    assert (shown["write_uid"], shown["active"]) == (MEI, True)
    assert shown["write_date"] > moment
    assert read(box, "res.partner", other, "write_uid", "write_date") == before


def test_an_address_goes_down_to_contacts_and_the_first_ones_goes_up(box):
    fields = ("id", "name", "is_company", "zip", "parent_id/id")
    company = partner(box, "t.c", "C", "1", "", "", fields=fields)
    partner(box, "t.p", "Pia", "0", "111", "t.c", fields=fields)
    assert read(box, "res.partner", company, "zip")["zip"] == "111"
    second = partner(box, "t.q", "Quin", "0", "222", "t.c", fields=fields)
    assert read(box, "res.partner", second, "zip")["zip"] == "111"
    call(box, "res.partner", "write", ids=[company], vals={"zip": "333", "city": "Singapore"})
    shown = read(box, "res.partner", second, "zip", "city")
    assert shown == {"zip": "333", "city": "Singapore"}


def test_a_website_gets_a_scheme_and_notes_lose_scripts_and_keep_lists(box):
    note = '<ul><li>a</li></ul><script>x()</script><a href="javascript:x()" onclick="y()">b</a>'
    fields = ("id", "name", "website", "comment")
    made = partner(box, "t.c", "C", "c.test", note, fields=fields)
    shown = read(box, "res.partner", made, "website", "comment")

    assert shown == {"website": "http://c.test", "comment": "<ul><li>a</li></ul><a>b</a>"}


def test_contacts_under_an_archived_company_can_be_loaded_and_stay_active(box):
    company = partner(box, "t.c", "C", "1", "", "")
    call(box, "res.partner", "write", ids=[company], vals={"active": False})
    contact = partner(box, "t.p", "Pia", "t.c", fields=("id", "name", "parent_id/id"))

    assert read(box, "res.partner", contact, "active")["active"] is True
    assert partner(box, "t.c", "D", fields=("id", "name")) == company


@pytest.mark.parametrize(
    ("context", "many"),
    [
        ({}, 1),
        ({"tracking_disable": True}, 0),
        ({"mail_create_nosubscribe": True, "mail_create_nolog": True}, 0),
    ],
)
def test_who_makes_a_record_follows_it_unless_the_context_says_otherwise(box, context, many):
    made = partner(box, "t.c", "C", "1", "", "", context=context)
    shown = read(box, "res.partner", made, "message_ids", "message_follower_ids")

    assert [len(each) for each in shown.values()] == [many, many]


def test_a_note_and_an_activity_show_who_made_them_and_do_not_change_the_record(box):
    made = partner(box, "t.c", "C", "1", "", "", context={"tracking_disable": True})
    before = read(box, "res.partner", made, "write_uid", "write_date")
    call(box, "res.partner", "message_post", key=HUMAN, ids=[made], body="called them")
    activity = {"res_model_id": 1, "res_id": made, "date_deadline": "2026-12-01"}
    [planned] = call(box, "mail.activity", "create", key=HUMAN, vals_list=[activity])

    assert read(box, "res.partner", made, "write_uid", "write_date") == before
    assert read(box, "res.partner", made, "activity_ids", key=KEY) == {"activity_ids": [planned]}
    domain = [["model", "=", "res.partner"], ["res_id", "in", [made]]]
    [note] = call(box, "mail.message", "search_read", domain=domain)
    [author] = call(box, "res.users", "read", ids=[3], fields=["partner_id"])
    assert (note["create_uid"], note["author_id"]) == (MEI, author["partner_id"])


def test_a_merge_moves_external_ids_and_fills_empty_fields_but_not_the_number(box):
    fields = ("id", "name", "is_company", "company_registry", "phone")
    ours = partner(box, "t.ours", "C", "1", "200900001A", "1", fields=fields)
    contact = partner(box, "t.p", "Pia", "t.ours", fields=("id", "name", "parent_id/id"))
    theirs = call(box, "res.partner", "create", key=HUMAN, vals_list={"name": "C Pte"})
    values = {"dst_partner_id": theirs, "partner_ids": [[6, 0, [ours, theirs]]]}
    wizard = "base.partner.merge.automatic.wizard"
    [id_] = call(box, wizard, "create", key=HUMAN, vals_list=[values])
    assert call(box, wizard, "action_merge", key=HUMAN, ids=[id_]) is True

    shown = read(box, "res.partner", theirs, "phone", "company_registry")
    assert shown == {"phone": "1", "company_registry": False}
    assert read(box, "res.partner", contact, "parent_id")["parent_id"] == [theirs, "C Pte"]
    named = call(box, "res.partner", "get_external_id", ids=[theirs])
    assert named == {str(theirs): "t.ours"}
    assert call(box, "res.partner", "read", ids=[ours], fields=["name"]) == []


def test_merged_leads_leave_one_and_the_others_go_with_their_external_ids(box):
    ours = lead(box)
    hers = call(box, "crm.lead", "create", key=HUMAN, vals_list={"name": "Hers", "phone": "1"})
    values = {"opportunity_ids": [[6, 0, [hers, ours]]]}
    [id_] = call(box, "crm.merge.opportunity", "create", key=HUMAN, vals_list=[values])

    assert call(box, "crm.merge.opportunity", "action_merge", key=HUMAN, ids=[id_]) == ours
    assert call(box, "crm.lead", "search", key=HUMAN, domain=[]) == [ours]
    assert read(box, "crm.lead", ours, "phone")["phone"] == "1"


def test_searches_can_be_joined_and_know_likeness(box):
    fields = ("id", "name", "email", "is_company")
    a, b = (partner(box, f"t.{name}", name, f"x@{name}.test", "1", fields=fields) for name in "ab")

    def found(*domain):
        return call(box, "res.partner", "search", domain=list(domain))

    assert found("|", ["name", "=", "a"], ["email", "=ilike", "%@B.test"]) == [a, b]
    assert found("!", ["email", "ilike", "@a."]) == [b]
    assert found("&", ["name", "in", ["a"]], ["name", "not in", ["a"]]) == []
    assert ask(box, "res.partner", "search", domain=["|", ["name", "=", "a"]]).status == 500


def test_every_number_of_a_company_stands_in_its_contacts(box):
    fields = ("id", "name", "is_company", "vat", "parent_id/id")
    company = partner(box, "t.c", "C", "1", "M1", "", fields=fields)
    contact = partner(box, "t.p", "Pia", "0", "", "t.c", fields=fields)

    found = call(box, "res.partner", "search", domain=[["vat", "=", "M1"]])
    assert found == [company, contact]
    assert json.dumps(read(box, "res.partner", contact, "vat")) == '{"vat": "M1"}'
