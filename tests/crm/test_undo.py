from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.crm.model import PARTNER, CrmField, CrmRecord, CrmRow
from stoker.crm.undo import compute_values_after_undo, list_expected_values, plan_undo
from stoker.crm.upsert import MAKER, WRITER, plan_upserts

ID = "stoker.acme_company_2009"
values = st.sampled_from([None, "a", "b", "c"])


@dataclass(frozen=True)
class Sent:
    digest: str = ""
    values: dict = field(default_factory=dict)
    before: dict = field(default_factory=dict)


def record(**known):
    return CrmRecord(id=7, external_id=ID, values=known)


def next_night(sent, there, **wanted):
    """Which cells a later night would send."""
    row = CrmRow(model=PARTNER, external_id=ID, values=wanted)
    plan = plan_upserts(
        [row],
        sent={ID: sent},
        there={ID: there},
        fields={PARTNER: {name: CrmField(kind="char") for name in ("name", "phone")}},
    )
    return plan.writes[0].cells


@given(before=values, ours=values, current=values)
def test_undoing_restores_what_was_there_where_nobody_has_changed_it(before, ours, current):
    undoing = plan_undo(
        Sent(values={"id": 7, "name": ours}, before={"name": before}), record(name=current)
    )

    if current == ours:
        restored = {"name": current, **undoing.values}
        assert (restored["name"] or None) == before
        assert not undoing.skipped
    else:
        assert not undoing.values
        assert undoing.skipped == (() if current == before else ("name",))


@given(before=values, ours=values, current=values)
def test_a_try_that_was_cut_off_can_be_made_again_and_ends_the_same(before, ours, current):
    sent = Sent(values={"id": 7, "name": ours}, before={"name": before})
    first = plan_undo(sent, record(name=current))
    cut_off = Sent(values=list_expected_values(sent, first), before=sent.before)
    for arrived in (current, {"name": current, **first.values}["name"] or None):
        again = plan_undo(cut_off, record(name=arrived))
        ended = {"name": arrived, **again.values}["name"] or None

        assert ended == ({"name": current, **first.values}["name"] or None)
        assert again.skipped == first.skipped
        assert compute_values_after_undo(cut_off, again) == compute_values_after_undo(sent, first)


def test_what_a_person_had_changed_stays_theirs_after_it_was_taken_back():
    # The run found the phone changed by a person, left it, and wrote the name.
    sent = Sent(
        values={"id": 7, "name": "new", "phone": "ours"},
        before={"name": "old", "phone": "theirs"},
    )
    there = record(name="new", phone="theirs")
    undoing = plan_undo(sent, there)
    kept = Sent(values=compute_values_after_undo(sent, undoing))

    assert (undoing.values, undoing.skipped) == ({"name": "old"}, ())
    assert next_night(kept, record(name="old", phone="theirs"), phone="newer") == {}


@pytest.mark.parametrize(
    ("maker", "writer", "taken_back"),
    [
        ([5, "Stoker"], [5, "Stoker"], True),
        ([5, "Stoker"], [8, "Mei"], False),
        ([5, "Stoker"], [1, "OdooBot"], True),
        (5, 8, False),
        (None, [8, "Mei"], True),
        (True, "nonsense", True),
    ],
)
def test_what_was_made_is_left_when_a_person_wrote_it_last(maker, writer, taken_back):
    made = Sent(values={"id": 7, "name": "A"})
    undoing = plan_undo(made, record(name="A", **{MAKER: maker, WRITER: writer}))

    assert bool(undoing.values) is taken_back
    assert bool(undoing.reason) is not taken_back


def test_what_was_brought_back_is_archived_again():
    sent = Sent(values={"id": 7, "name": "B", "active": True}, before={"name": "A", "active": None})
    undoing = plan_undo(sent, record(name="B", active=True))
    assert (undoing.values, undoing.skipped) == ({"name": "A", "active": False}, ())
    assert compute_values_after_undo(sent, undoing)["active"] is None
    cut_off = Sent(values=list_expected_values(sent, undoing), before=sent.before)
    again = plan_undo(cut_off, record(name="A", active=None))
    assert (again.values, again.skipped) == ({}, ())
    assert compute_values_after_undo(cut_off, again) == compute_values_after_undo(sent, undoing)


def test_what_somebody_else_archived_is_not_remembered_as_archived_by_us():
    sent = Sent(values={"id": 7, "name": "B", "active": True}, before={"name": "A", "active": None})
    undoing = plan_undo(sent, record(name="B", active=None))
    assert (undoing.values, undoing.skipped) == ({"name": "A"}, ())
    assert compute_values_after_undo(sent, undoing) == {"id": 7, "name": "A"}


def test_a_run_that_found_a_record_brought_back_does_not_archive_it():
    sent = Sent(values={"id": 7, "name": "C", "active": True}, before={"name": "B", "active": True})
    assert plan_undo(sent, record(name="C", active=True)).values == {"name": "B"}


@pytest.mark.parametrize(
    "theirs", [{"phone": "theirs"}, {MAKER: [5, "Stoker"], WRITER: [8, "Mei"]}]
)
def test_what_was_brought_back_and_worked_on_since_stays_and_the_rest_is_restored(theirs):
    sent = Sent(
        values={"id": 7, "name": "B", "phone": "1", "active": True},
        before={"name": "A", "phone": None, "active": None},
    )
    undoing = plan_undo(sent, record(**{"name": "B", "phone": "1", "active": True, **theirs}))
    assert undoing.values["name"] == "A"
    assert "active" not in undoing.values
    assert "worked on it" in undoing.reason
