from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.crm.model import LEAD, PARTNER, CrmField, CrmRecord, CrmRow
from stoker.crm.upsert import (
    CRM_KEY,
    UNDONE_PREFIX,
    compute_digest,
    compute_values_after_send,
    list_changed_rows,
    list_settled_digests,
    plan_upserts,
)

TEXT = CrmField(kind="char")
FIELDS = {
    PARTNER: {
        "name": TEXT,
        "email": TEXT,
        "phone": TEXT,
        "parent_id": TEXT,
        "is_company": CrmField(kind="boolean"),
        "active": CrmField(kind="boolean"),
        "ref": CrmField(kind="char", readonly=True),
    },
    LEAD: {"name": TEXT, "priority": CrmField(kind="selection", choices=("0", "1"))},
}
ID = "stoker.acme_company_2009"


@dataclass(frozen=True)
class Sent:
    digest: str = ""
    values: dict = field(default_factory=dict)
    before: dict = field(default_factory=dict)
    settled: frozenset = frozenset()


def row(id_=ID, *, model=PARTNER, links=None, once=None, **values):
    return CrmRow(
        model=model, external_id=id_, values=values, links=links or {}, on_create=once or {}
    )


def record(id_=ID, number=7, **values):
    return CrmRecord(id=number, external_id=id_, values=values)


def decided(row, *, sent=None, there=None):
    return plan_upserts(
        [row],
        sent={row.external_id: sent} if sent else {},
        there={row.external_id: there} if there else {},
        fields=FIELDS,
    )


def cells(row, **known):
    (write,) = decided(row, **known).writes
    return write.cells


def because(row, **known):
    (left,) = decided(row, **known).skipped
    return left.reason


def test_a_new_row_is_sent_whole():
    new = row(name="A", once={"is_company": True}, links={"parent_id": "stoker.acme_company_1"})
    assert cells(new) == {"name": "A", "is_company": True, "parent_id/id": "stoker.acme_company_1"}


def test_what_is_set_once_is_peoples_from_then_on():
    known = row(name="B", once={"is_company": True}, links={"parent_id": "stoker.acme_company_1"})
    assert cells(known, sent=Sent(values={"id": 7, "name": "A"}), there=record(name="A")) == {
        "name": "B"
    }


def test_what_the_crm_does_not_have_or_allow_is_not_sent():
    assert cells(row(name="A", mobile="1", ref="x")) == {"name": "A"}
    assert cells(row(model=LEAD, name="A", priority="9")) == {"name": "A"}


values = st.sampled_from([None, "a", "b", "c"])


@given(ours=values, current=values, wanted=st.sampled_from(["a", "b", "c"]))
def test_a_field_somebody_changed_since_is_never_overwritten(ours, current, wanted):
    known = Sent(values={"id": 7, "name": "N", "email": ours})
    sent = cells(row(name="N", email=wanted), sent=known, there=record(name="N", email=current))

    theirs = current != ours
    if theirs and (current or ours):
        assert "email" not in sent
    else:
        assert sent.get("email", current) == wanted


@given(st.dictionaries(st.sampled_from(["name", "email", "phone"]), values), values)
def test_nothing_never_replaces_something(wanted, current):
    row_ = row(**{column: value or "" for column, value in wanted.items()})
    there = record(name=current, email=current, phone=current)
    for known in (None, Sent(values={"id": 7, "name": current, "email": current})):
        assert all(cells(row_, sent=known, there=there).values())


def test_what_belongs_to_something_deleted_is_left_too():
    contact = row("stoker.acme_contact_1", name="Mei", links={"parent_id": ID})
    sent = {ID: Sent(values={"id": 7, "name": "A"})}
    plan = plan_upserts([row(name="B"), contact], sent=sent, there={}, fields=FIELDS)

    assert not plan.writes
    assert "deleted" in plan.skipped[1].reason


OURS, THEIRS = {"create_uid": [2, "Stoker"], "write_uid": [2, "Stoker"]}, {"write_uid": [3, "Mei"]}
MADE_AND_TAKEN_BACK = Sent(digest=f"{UNDONE_PREFIX}d", values={"id": 7, "name": "A"})
BROUGHT_BACK_AND_TAKEN_BACK = Sent(
    digest=f"{UNDONE_PREFIX}d",
    values={"id": 7, "name": "A", "active": None},
    before={"name": "A", "active": None},
)
MEANT_TO_BE_BROUGHT_BACK = Sent(
    values={"id": 7, "name": "A", "active": [None, True]}, before={"name": "A", "active": None}
)
CHANGED_WHILE_ARCHIVED_AND_TAKEN_BACK = Sent(
    digest=f"{UNDONE_PREFIX}d", values={"id": 7, "name": "A"}, before={"name": "A", "active": None}
)
WRITTEN = Sent(digest="d", values={"id": 7, "name": "A"})
MEI = row("stoker.acme_contact_1", name="Mei", links={"parent_id": ID})


def archived(**values):
    return record(name="A", active=None, **{**OURS, **values})


away = pytest.mark.parametrize(
    "sent", [MADE_AND_TAKEN_BACK, BROUGHT_BACK_AND_TAKEN_BACK, MEANT_TO_BE_BROUGHT_BACK]
)
put_away_by_people = pytest.mark.parametrize(
    ("sent", "there"),
    [
        (WRITTEN, archived()),
        (CHANGED_WHILE_ARCHIVED_AND_TAKEN_BACK, archived()),
        (MADE_AND_TAKEN_BACK, archived(**THEIRS)),
        (BROUGHT_BACK_AND_TAKEN_BACK, archived(**THEIRS)),
        (None, archived()),
        (None, record("", number=99, name="Theirs", active=None)),
    ],
)


@away
def test_what_was_taken_back_is_brought_back_with_news_of_it_and_not_without(sent):
    (news,) = decided(row(name="B"), sent=sent, there=archived()).writes
    assert news.cells == {"name": "B", "active": True}
    assert news.before == {"name": "A", "active": None}
    assert news.intent["active"] == [None, True]

    (none,) = decided(row(name="A"), sent=sent, there=archived()).writes
    assert none.cells == {}


@away
@pytest.mark.parametrize("wanted", [[MEI], [row(name="A"), MEI]])
def test_what_was_taken_back_is_brought_back_as_it_stands_with_what_belongs_to_it(sent, wanted):
    beside = [row(name="A")]
    there = {ID: archived()}
    plan = plan_upserts(wanted, sent={ID: sent}, there=there, fields=FIELDS, beside=beside)

    assert [(write.row.external_id, write.cells) for write in plan.writes] == [
        (ID, {"active": True}),
        (MEI.external_id, {"name": "Mei", "parent_id/id": ID}),
    ]
    assert not plan.skipped


@put_away_by_people
def test_what_people_archived_stays_archived_and_nothing_new_is_hung_there(sent, there):
    company = row(name="B")
    known = {ID: sent} if sent else {}
    plan = plan_upserts([company, MEI], sent=known, there={ID: there}, fields=FIELDS)

    assert not [write for write in plan.writes if "active" in write.cells]
    assert plan.skipped[-1].external_id == MEI.external_id
    assert plan.skipped[-1].reason == "what it belongs to is archived in the CRM"


def test_what_was_taken_back_stays_so_while_people_keep_archived_what_it_belongs_to():
    mei = replace(MADE_AND_TAKEN_BACK, values={"id": 8, "name": "Mei"})
    plan = plan_upserts(
        [replace(MEI, values={"name": "Mei", "phone": "1"})],
        sent={ID: WRITTEN, MEI.external_id: mei},
        there={
            ID: archived(),
            MEI.external_id: record(MEI.external_id, 8, name="Mei", active=None, **OURS),
        },
        fields=FIELDS,
        beside=[row(name="A")],
    )

    assert not plan.writes
    assert "archived" in plan.skipped[0].reason


def test_a_change_of_what_is_seen_already_brings_nothing_else_back():
    mei = Sent(values={"id": 8, "name": "Mei"})
    plan = plan_upserts(
        [replace(MEI, values={"name": "Mei", "phone": "1"})],
        sent={ID: MADE_AND_TAKEN_BACK, MEI.external_id: mei},
        there={
            ID: archived(),
            MEI.external_id: record(MEI.external_id, 8, name="Mei", active=True),
        },
        fields=FIELDS,
        beside=[row(name="A")],
    )

    assert [write.cells for write in plan.writes] == [{"phone": "1"}]


def test_that_we_brought_a_record_back_is_remembered_until_somebody_archives_it():
    (write,) = decided(row(name="B"), sent=MADE_AND_TAKEN_BACK, there=archived()).writes
    kept = compute_values_after_send(write, record(name="B", active=True), MADE_AND_TAKEN_BACK)
    assert kept == {"id": 7, "name": "B", "active": True}

    sent = Sent(digest="d", values=kept)
    for active, remains in [(True, {"active": True}), (None, {})]:
        there = record(name="B", active=active)
        (later,) = decided(row(name="C"), sent=sent, there=there).writes
        assert later.cells == {"name": "C"}
        assert {name: later.intent[name] for name in later.intent if name == "active"} == remains
        now = compute_values_after_send(later, record(name="C", active=active), sent)
        assert now == {"id": 7, "name": "C", **remains}


def test_what_a_person_brought_back_is_not_remembered_as_our_doing():
    sent, there = BROUGHT_BACK_AND_TAKEN_BACK, record(name="A", active=True)
    (write,) = decided(row(name="B"), sent=sent, there=there).writes
    assert "active" not in write.intent
    assert compute_values_after_send(write, record(name="B", active=True), sent) == {
        "id": 7,
        "name": "B",
    }


def test_a_row_that_wants_what_it_wanted_need_not_be_looked_at():
    same, other = row(name="A"), row("stoker.acme_x", name="B")
    sent = {ID: Sent(digest=compute_digest(same)), other.external_id: Sent(digest="older")}

    assert list_changed_rows([same, other], sent) == [other]
    assert list_changed_rows([row(name="old"), same], sent) == []


@pytest.mark.parametrize("current", ["old", "new"])
def test_our_own_half_done_write_is_not_taken_for_a_persons(current):
    first = Sent(values={"id": 7, "name": "old"}, before={"name": "x"})
    (write,) = decided(row(name="new"), sent=first, there=record(name="old")).writes
    crashed = replace(first, values=write.intent)

    later = cells(row(name="newer"), sent=crashed, there=record(name=current))
    assert later == {"name": "newer"}
    assert cells(row(name="newer"), sent=crashed, there=record(name="a person's")) == {}


@pytest.mark.parametrize("sent", [None, Sent(values={"name": "A"}), Sent(values={"id": 7})])
def test_a_record_that_is_there_is_never_made_by_what_is_sent_now(sent):
    (write,) = decided(row(name="A", email="e"), sent=sent, there=record(name="A")).writes
    assert (write.cells, write.before) == ({"email": "e"}, {"name": "A", "email": None})


def test_what_the_crm_made_of_a_value_is_what_we_remember_as_ours():
    wanted = row(name="A", phone="+65 1")
    (write,) = decided(wanted).writes
    kept = compute_values_after_send(write, record(name="A", phone="+65-1"), None)
    assert kept == {"id": 7, "name": "A", "phone": "+65-1"}

    next_ = row(name="A", phone="+65 2")
    assert cells(next_, sent=Sent(values=kept), there=record(name="A", phone="+65-1")) == {
        "phone": "+65 2"
    }


def test_what_was_left_to_a_person_stays_theirs():
    sent = Sent(values={"id": 7, "name": "ours"})
    (write,) = decided(row(name="new", email="e"), sent=sent, there=record(name="theirs")).writes
    kept = compute_values_after_send(write, record(name="theirs", email="e"), sent)

    assert kept == {"id": 7, "name": "ours", "email": "e"}


def writes(*digests, place=None):
    values = {CRM_KEY: place} if place else {}
    return [Sent(digest=digest, values=values) for digest in digests]


@pytest.mark.parametrize(
    ("digests", "settled"),
    [
        (["a"], set()),
        (["a", "b"], set()),
        (["a", f"{UNDONE_PREFIX}b"], {"a"}),  # what stood before stands again
        (["a", f"{UNDONE_PREFIX}b", f"{UNDONE_PREFIX}c"], {"a", "b"}),
        ([f"{UNDONE_PREFIX}b", f"{UNDONE_PREFIX}a"], {"b"}),
        ([f"{UNDONE_PREFIX}a", "b"], {"a"}),
        ([f"{UNDONE_PREFIX}a", "b", "a"], set()),
        (["", f"{UNDONE_PREFIX}b"], {""}),
    ],
)
def test_all_that_was_taken_back_is_settled_and_so_is_what_stands_again(digests, settled):
    assert list_settled_digests(writes(*digests)) == settled
    assert list_settled_digests(writes(*digests, place="here")) == settled


def test_what_was_taken_back_from_another_crm_settles_nothing_here():
    there = writes("b", f"{UNDONE_PREFIX}a", place="there")

    assert list_settled_digests([*there, *writes("c", place="here")]) == set()
    assert list_settled_digests([*there, *writes(f"{UNDONE_PREFIX}c", place="here")]) == set()
