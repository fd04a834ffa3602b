"""Who fits what a tenant looks for, and the one reason why not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.accounts.icp import IcpRule, match_icp
from stoker.accounts.model import Company, CompanyId
from stoker.base.errors import ConfigError

RULE = IcpRule(industries=("62", "6311"), employees=(2, 100), years=(2000, 2025))


def company(**about):
    given = {"ssic": "62011", "year": 2010, "employees": 10, **about}
    return Company(id=CompanyId("c"), name="Acme", **given)


@pytest.mark.parametrize(
    ("about", "fits", "because"),
    [
        ({}, True, "industry 62011, incorporated 2010, 10 employees"),
        ({"ssic": "63119"}, True, "industry 63119"),
        ({"live": False}, False, "no longer active"),
        ({"ssic": "63120"}, False, "industry 63120 is none of 62, 6311"),
        ({"ssic": ""}, False, "industry unknown is none of"),
        ({"year": 1999}, False, "incorporated 1999, wanted 2000–2025"),
        ({"year": 2026}, False, "incorporated 2026"),
        ({"year": None}, True, "year unknown"),
        ({"employees": 1}, False, "1 employees, wanted 2–100"),
        ({"employees": 101}, False, "101 employees"),
        ({"employees": None}, True, "size unknown"),
    ],
)
def test_a_company_fits_or_is_told_the_part_of_the_rule_it_fails(about, fits, because):
    told = match_icp(company(**about), RULE)
    assert told.fits is fits
    assert because in told.reason


@given(st.text("0123456789", min_size=5, max_size=5), st.integers(1990, 2030))
def test_what_is_not_known_is_no_reason_to_refuse(ssic, year):
    known = match_icp(company(ssic=ssic, year=year, employees=50), RULE)
    assert match_icp(company(ssic=ssic, year=year, employees=None), RULE).fits is known.fits


def test_a_rule_without_industries_takes_all_of_them():
    assert match_icp(company(ssic=""), IcpRule(industries=())).fits


@pytest.mark.parametrize(
    "wrong",
    [
        {"industries": ("tech",)},
        {"industries": ("",)},
        {"industries": ("620111",)},
        {"industries": ("٦٢",)},
        {"employees": (10, 2)},
        {"employees": (-1, 2)},
        {"years": (2025, 2000)},
        {"years": (0, 2000)},
    ],
)
def test_a_rule_that_cannot_be_meant_is_refused(wrong):
    with pytest.raises(ConfigError):
        IcpRule(**wrong)
