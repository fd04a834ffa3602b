from dataclasses import replace
from datetime import UTC, datetime

from stoker.accounts.model import (
    Bucket,
    Company,
    CompanyId,
    CompanyRecord,
    Contact,
    EmailStatus,
    LeadScore,
)
from stoker.leads.service import LEAD_COLUMNS, to_lead_row

KNOWN = CompanyRecord(
    company=Company(id=CompanyId("200900001A"), name="Acme"),
    contacts=(
        Contact(
            name="Mei",
            email="mei@acme.test",
            verdict=EmailStatus.VALID,
            source="lusha",
            confidence=0.2,
        ),
        Contact(name="Raj", source="https://acme.test/team", confidence=0.9),
    ),
    score=LeadScore(
        value=0.7, bucket=Bucket.HIGH, features={"size": 1.0}, feature_hash="f", rationale="Fits."
    ),
    looked_at=datetime(2026, 11, 16, tzinfo=UTC),
    run="20261116_180000",
)


def test_a_row_has_every_column_whatever_is_known():
    nothing = CompanyRecord(company=KNOWN.company)
    assert (
        list(to_lead_row("acme", KNOWN)) == list(to_lead_row("acme", nothing)) == list(LEAD_COLUMNS)
    )


def test_whom_to_write_to_is_somebody_with_an_address():
    row = to_lead_row("acme", KNOWN)

    assert (row["contact_name"], row["contact_email"]) == ("Mei", "mei@acme.test")
    assert (row["contact_verdict"], row["contact_source"]) == ("valid", "lusha")
    assert [each["name"] for each in row["contacts"]] == ["Mei", "Raj"]


def test_an_address_nobody_should_write_to_stands_only_beside_its_verdict():
    trap = replace(KNOWN.contacts[0], verdict=EmailStatus.RISKY)
    row = to_lead_row("acme", replace(KNOWN, contacts=(trap,)))

    assert (row["contact_email"], row["contact_verdict"]) == ("", "risky")
    assert [(each["email"], each["verdict"]) for each in row["contacts"]] == [
        ("mei@acme.test", "risky")
    ]
