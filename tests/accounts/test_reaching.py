from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from stoker.accounts.contacts import (
    MOST_CONTACTS,
    MOST_VERIFIED,
    contacts_found,
    joined,
    to_verify,
    verified,
)
from stoker.accounts.facts import Field, Finding, How
from stoker.accounts.model import Contact, Verdict

SITE = "https://acme.sg/"


def finding(field, value, source=SITE, confidence=0.8):
    return Finding.found(field, value, source=source, how=How.TEXT, confidence=confidence)


def contact(email="", name="", confidence=0.5, verdict=Verdict.UNVERIFIED, title=""):
    return Contact(
        email=email, name=name, source="x", confidence=confidence, verdict=verdict, title=title
    )


contacts = st.lists(
    st.builds(
        contact,
        email=st.sampled_from(["a@acme.sg", "b@acme.sg", "c@acme.sg"]),
        name=st.sampled_from(["", "Ann", "Bob"]),
        confidence=st.floats(0, 1),
        verdict=st.sampled_from(list(Verdict)),
    )
)


def test_addresses_of_the_company_count_and_those_its_own_site_gives():
    found = [
        finding(Field.EMAIL, "Info@Acme.sg"),
        finding(Field.EMAIL, "acme.sg@gmail.com"),
        finding(Field.EMAIL, "hi@acme.sg", source="https://directory.test/acme"),
        finding(Field.EMAIL, "editor@news.test", source="https://news.test/acme"),
        finding(Field.EMAIL, "no address"),
    ]
    emails = {each.email for each in contacts_found(found, website=SITE)}
    assert emails == {"info@acme.sg", "acme.sg@gmail.com", "hi@acme.sg"}


def test_nobodys_address_counts_while_no_site_is_known():
    assert contacts_found([finding(Field.EMAIL, "info@acme.sg")], website="") == ()


def test_people_are_contacts_with_what_they_do():
    [ann] = contacts_found([finding(Field.PERSON, "Ann Tan | Director")], website=SITE)
    assert (ann.name, ann.title) == ("Ann Tan", "Director")
    assert contacts_found([finding(Field.PERSON, " | Director")], website=SITE) == ()


def test_a_verdict_stays_with_its_address_until_there_is_a_new_one():
    known = contact("a@acme.sg", verdict=Verdict.VALID)
    assert joined([known], [contact("a@acme.sg", confidence=0.9)])[0].verdict is Verdict.VALID
    said = contact("a@acme.sg", confidence=0.9, verdict=Verdict.INVALID)
    assert joined([known], [said])[0].verdict is Verdict.INVALID


@given(contacts, contacts)
def test_joining_loses_nobody_and_has_nobody_twice(known, found):
    keys = [each.key for each in joined(known, found)]
    assert len(set(keys)) == len(keys) <= MOST_CONTACTS
    assert set(keys) == {each.key for each in (*known, *found)}


@given(contacts)
def test_joining_the_same_again_changes_nothing(known):
    once = joined((), known)
    assert joined(once, once) == once


@given(contacts)
def test_few_addresses_are_paid_for_and_each_once(known):
    wanted = to_verify(known)
    assert len(set(wanted)) == len(wanted) <= MOST_VERIFIED
    assert set(wanted) <= {each.email for each in known}


def test_a_verdict_is_written_to_every_contact_with_its_address():
    people = (contact("a@acme.sg", "Ann"), contact("b@acme.sg"))
    told = verified(people, {"a@acme.sg": Verdict.VALID})
    assert told == (replace(people[0], verdict=Verdict.VALID), people[1])
