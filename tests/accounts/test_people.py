"""Names of people: the addresses that spell them, mailboxes that are no person's, who decides."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.accounts.people import (
    PersonEntry,
    compute_seniority,
    format_person,
    is_mailbox,
    parse_person,
    spells_name,
)

words = st.text("abcdefghij", min_size=1, max_size=8)


@pytest.mark.parametrize(
    "local",
    [
        "zhiwei.rajan",
        "zhi.wei.rajan",
        "zhiwei_rajan7",
        "rajan.zhiwei",
        "z.rajan",
        "r.zhiwei",
        "zhi.rajan",
        "ZhiWeiRajan",
        "rajanzhiwei2",
    ],
)
def test_an_address_spells_a_name(local):
    assert spells_name(f"{local}@acme.test", "Zhi Wei Rajan")


@pytest.mark.parametrize(
    "local", ["rajan", "zhiwei", "z", "zrajan", "zw", "info", "zhiwei.tan", "w.z", "", "42"]
)
def test_an_address_that_could_be_anothers_spells_no_name(local):
    assert not spells_name(f"{local}@acme.test", "Zhi Wei Rajan")


def test_accents_and_titles_before_a_name_do_not_matter():
    assert spells_name("jose.diaz@acme.test", "Dr. José Díaz")
    assert spells_name("ahmad.rahman@acme.test", "Ahmad bin Rahman")
    assert not spells_name("rajan@acme.test", "Rajan")  # one word is no full name


@pytest.mark.parametrize(
    ("email", "expected"),
    [
        ("info@acme.test", True),
        ("sales.sg@acme.test", True),
        ("customer-service2@acme.test", True),
        ("acme@acme.test", True),
        ("hello@acme.test", True),
        ("jane.tan@acme.test", False),
        ("jane@acme.test", False),
        ("sales.jane@acme.test", False),
    ],
)
def test_a_mailbox_has_only_words_for_mailboxes(email, expected):
    assert is_mailbox(email) is expected


@given(words, words, st.sampled_from(["", "a.b@c.test"]), st.sampled_from(["", "+6561234567"]))
def test_a_person_is_read_as_it_was_written(name, title, email, phone):
    entry = PersonEntry(name=name, title=title, email=email, phone=phone)
    assert parse_person(format_person(entry)) == entry


def test_a_fact_of_before_addresses_were_joined_is_a_name_and_a_title():
    assert parse_person("Ann Tan | Director | Asia") == PersonEntry(
        name="Ann Tan", title="Director | Asia"
    )
    assert parse_person("Ann Tan") == PersonEntry(name="Ann Tan")


def test_directors_decide_more_than_heads_and_these_more_than_others():
    ranks = [
        compute_seniority("Ann", title)
        for title in ("Founder & CEO", "Sales Director", "Head of IT", "HR Manager", "Clerk", "")
    ]
    assert ranks == [1.0, 1.0, 0.7, 0.7, 0.4, 0.4]
    assert compute_seniority("Ann", "Assistant to the Director") < 1.0
    assert compute_seniority("", "") == 0.0
