import pytest

from stoker.crm.model import CrmRecord
from stoker.crm.upsert import ACTIVE, MAKER, WRITER, is_archived, was_edited_by_person


def record(**values):
    return CrmRecord(id=7, external_id="stoker.x", values=values)


@pytest.mark.parametrize(
    ("values", "archived"),
    [({ACTIVE: True}, False), ({ACTIVE: None}, True), ({ACTIVE: False}, True), ({}, False)],
)
def test_a_record_is_archived_only_where_the_crm_says_so(values, archived):
    assert is_archived(record(**values)) is archived


def test_a_record_was_worked_on_when_somebody_else_than_its_maker_wrote_it_last():
    assert was_edited_by_person(record(**{MAKER: [5, "Stoker"], WRITER: [8, "Mei"]}))
    assert not was_edited_by_person(record(**{MAKER: [5, "Stoker"], WRITER: [5, "Stoker"]}))
    assert not was_edited_by_person(record(**{MAKER: [5, "Stoker"], WRITER: [1, "OdooBot"]}))
    assert not was_edited_by_person(record(**{MAKER: [5, "Stoker"]}))
