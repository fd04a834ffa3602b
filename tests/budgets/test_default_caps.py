from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.base.errors import ConfigError
from stoker.budgets.caps import (
    Cap,
    CapChange,
    Scope,
    build_default_caps,
    list_added_caps,
    list_effective_caps,
    parse_cap,
)
from stoker.budgets.settings import CapSettings
from stoker.budgets.windows import WindowKind

DAILY = CapSettings(pull_units_per_day=5, money_per_day_minor=6, currency="SGD")
VENDORS = [("tavily", "calls", 1), ("lusha", "credits", 12), ("lusha", "calls", 2)]
NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)

scopes = st.sampled_from(Scope)
caps = st.builds(
    lambda scope, connector, unit, window, limit: Cap(
        scope=scope,
        connector="" if scope is Scope.TENANT else connector,
        unit=unit,
        window=window,
        limit=limit,
    ),
    scopes,
    st.from_regex(r"[a-z][a-z0-9_-]{0,62}", fullmatch=True),
    st.sampled_from(["calls", "pull_units", "tokens", "credits", "money:USD"]),
    st.sampled_from(WindowKind),
    st.integers(0, 10**15),
)


def test_every_allowance_becomes_a_cap_of_its_own_sorted_by_id():
    found = build_default_caps(DAILY, VENDORS, per_run=[("tavily", "calls", 1)])

    assert [(cap.id, cap.limit) for cap in found] == [
        ("tenant/*/money:SGD/day", 6),
        ("tenant/*/pull_units/day", 5),
        ("tenant_connector/lusha/calls/day", 2),
        ("tenant_connector/lusha/credits/day", 12),
        ("tenant_connector/tavily/calls/day", 1),
        ("tenant_connector/tavily/calls/run", 1),
    ]


@given(caps)
def test_a_cap_can_be_named_by_its_id(cap):
    assert parse_cap(cap.id, limit=cap.limit) == cap


@pytest.mark.parametrize(
    ("cap", "complaint"),
    [
        ("", "unknown cap"),
        ("tenant/*/calls", "unknown cap"),
        ("tenant/*/calls/day/", "unknown cap"),
        ("everybody/*/calls/day", "unknown cap"),
        ("tenant/*/calls/month", "windows: hour, day, week, run"),
        ("TENANT/*/calls/day", "unknown cap"),
        ("tenant//calls/day", r"did you mean tenant/\*/calls/day\?"),
        ("tenant/*/smiles/day", "'smiles' is no unit"),
        ("tenant/lusha/calls/day", "counts all connectors"),
        ("tenant_connector/*/calls/day", "is no connector"),
        ("connector/Lusha/calls/day", "is no connector"),
    ],
)
def test_an_id_that_means_no_cap_is_refused_with_what_to_write(cap, complaint):
    with pytest.raises(ConfigError, match=complaint):
        parse_cap(cap, limit=1)


def test_a_limit_that_cannot_be_meant_is_refused():
    with pytest.raises(ConfigError, match="-1; allowed"):
        parse_cap("tenant/*/calls/day", limit=-1)


def said(cap, limit):
    return {cap: CapChange(cap=cap, limit=limit)}


def test_caps_people_added_are_in_force_beside_those_that_were_given():
    given_caps = build_default_caps(DAILY, VENDORS)
    found = list_effective_caps(
        given_caps, said("tenant_connector/lusha/credits/week", 7), shared=False
    )

    added = [cap for cap in found if cap not in given_caps]
    assert [(cap.id, cap.limit) for cap in added] == [("tenant_connector/lusha/credits/week", 7)]
    assert set(given_caps) < set(found)
    assert [cap.id for cap in found] == sorted(cap.id for cap in found)


def test_a_given_cap_keeps_its_given_limit_here_for_the_store_asks_what_was_said():
    given_caps = build_default_caps(DAILY, VENDORS)

    found = list_effective_caps(given_caps, said("tenant/*/pull_units/day", 99), shared=False)
    assert found == given_caps


def test_a_raise_alone_adds_no_cap():
    raised = CapChange(cap="tenant/*/calls/day", raised_to=9, raised_until=NOW)

    assert list_effective_caps((), {raised.cap: raised}, shared=False) == ()
    assert list_added_caps((), {raised.cap: raised}) == []


def test_added_caps_are_those_that_were_not_given_with_their_limit_as_it_is_now():
    given_caps = build_default_caps(DAILY, VENDORS)
    changes = said("connector/tavily/calls/day", 5) | said("tenant/*/pull_units/day", 99)

    for limit in (5, 6):
        changes |= said("connector/tavily/calls/day", limit)
        [added] = list_added_caps(given_caps, changes)
        assert (added.id, added.limit) == ("connector/tavily/calls/day", limit)


def test_what_tenants_share_and_what_is_a_tenants_own_are_kept_apart():
    shared = parse_cap("connector/tavily/calls/day", limit=5)
    own = parse_cap("tenant/*/calls/day", limit=5)

    assert list_effective_caps([shared, own], {}, shared=True) == (shared,)
    assert list_effective_caps([shared, own], {}, shared=False) == (own,)
