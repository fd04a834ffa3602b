from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from stoker.accounts.contacts import (
    MAX_CONTACTS,
    MAX_VERIFIED,
    apply_verdicts,
    build_contacts_from_facts,
    choose_emails_to_verify,
    merge_contacts,
)
from stoker.accounts.facts import Fact, FactField, Method
from stoker.accounts.model import Contact, EmailStatus

SITE = "https://acme.sg/"


def finding(field, value, source=SITE, confidence=0.8):
    return Fact.build(field, value, source=source, how=Method.TEXT, confidence=confidence)


def contact(email="", name="", confidence=0.5, verdict=EmailStatus.UNVERIFIED, title=""):
    return Contact(
        email=email, name=name, source="x", confidence=confidence, verdict=verdict, title=title
    )


contacts = st.lists(
    st.builds(
        contact,
        email=st.sampled_from(["a@acme.sg", "b@acme.sg", "c@acme.sg"]),
        name=st.sampled_from(["", "Ann", "Bob"]),
        confidence=st.floats(0, 1),
        verdict=st.sampled_from(list(EmailStatus)),
    )
)


def test_addresses_of_the_company_count_and_those_its_own_site_gives():
    found = [
        finding(FactField.EMAIL, "Info@Acme.sg"),
        finding(FactField.EMAIL, "acme.sg@gmail.com"),
        finding(FactField.EMAIL, "hi@acme.sg", source="https://directory.test/acme"),
        finding(FactField.EMAIL, "editor@news.test", source="https://news.test/acme"),
        finding(FactField.EMAIL, "no address"),
    ]
    emails = {each.email for each in build_contacts_from_facts(found, website=SITE)}
    assert emails == {"info@acme.sg", "acme.sg@gmail.com", "hi@acme.sg"}


def test_nobodys_address_counts_while_no_site_is_known():
    assert build_contacts_from_facts([finding(FactField.EMAIL, "info@acme.sg")], website="") == ()


def test_people_are_contacts_with_what_they_do():
    [ann] = build_contacts_from_facts(
        [finding(FactField.PERSON, "Ann Tan | Director")], website=SITE
    )
    assert (ann.name, ann.title) == ("Ann Tan", "Director")
    assert build_contacts_from_facts([finding(FactField.PERSON, " | Director")], website=SITE) == ()


def test_a_verdict_stays_with_its_address_until_there_is_a_new_one():
    known = contact("a@acme.sg", verdict=EmailStatus.VALID)
    assert (
        merge_contacts([known], [contact("a@acme.sg", confidence=0.9)])[0].verdict
        is EmailStatus.VALID
    )
    said = contact("a@acme.sg", confidence=0.9, verdict=EmailStatus.INVALID)
    assert merge_contacts([known], [said])[0].verdict is EmailStatus.INVALID


@given(contacts, contacts)
def test_joining_loses_nobody_and_has_nobody_twice(known, found):
    keys = [each.key for each in merge_contacts(known, found)]
    assert len(set(keys)) == len(keys) <= MAX_CONTACTS
    assert set(keys) == {each.key for each in (*known, *found)}


@given(contacts)
def test_joining_the_same_again_changes_nothing(known):
    once = merge_contacts((), known)
    assert merge_contacts(once, once) == once


@given(contacts)
def test_few_addresses_are_paid_for_and_each_once(known):
    wanted = choose_emails_to_verify(known)
    assert len(set(wanted)) == len(wanted) <= MAX_VERIFIED
    assert set(wanted) <= {each.email for each in known}


def test_a_verdict_is_written_to_every_contact_with_its_address():
    people = (contact("a@acme.sg", "Ann"), contact("b@acme.sg"))
    told = apply_verdicts(people, {"a@acme.sg": EmailStatus.VALID})
    assert told == (replace(people[0], verdict=EmailStatus.VALID), people[1])
