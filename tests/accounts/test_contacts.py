from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from stoker.accounts.contacts import (
    MAX_CONTACTS,
    MAX_VERIFIED,
    apply_verdicts,
    build_contacts_from_facts,
    choose_best_contact,
    choose_emails_to_verify,
    find_own_mailbox,
    has_reachable_person,
    has_unverified_email,
    list_own_people,
    merge_contacts,
)
from stoker.accounts.facts import Fact, FactField, Method
from stoker.accounts.model import Company, CompanyId, CompanyRecord, Contact, EmailStatus

SITE = "https://acme.sg/"


def finding(field, value, source=SITE, confidence=0.8):
    return Fact.build(field, value, source=source, how=Method.TEXT, confidence=confidence)


def contact(
    email="", name="", confidence=0.5, verdict=EmailStatus.UNVERIFIED, title="", source="x"
):
    return Contact(
        email=email, name=name, source=source, confidence=confidence, verdict=verdict, title=title
    )


def record(*people):
    return CompanyRecord(company=Company(id=CompanyId("c"), name="Acme"), contacts=people)


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
    merged = merge_contacts(known, found)
    keys = [each.key for each in merged]
    assert len(set(keys)) == len(keys) <= MAX_CONTACTS
    # Newest addresses stay; a known one goes only for the same person's newer one.
    emails = {each.email for each in merged}
    assert len(emails) == len(merged)
    assert emails <= {each.email for each in (*known, *found)}
    strong = {each.email for each in found if each.confidence == 1}
    assert strong <= emails


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


def test_an_address_joins_the_one_person_whose_name_it_spells():
    found = [
        finding(FactField.PERSON, "Zhi Wei Rajan | Director"),
        finding(FactField.PERSON, "Ali Hassan | Manager"),
        finding(FactField.PERSON, "Mei Lim | Clerk"),
        finding(FactField.PERSON, "Min Lim | Clerk"),
        *(
            finding(FactField.EMAIL, f"{local}@acme.sg")
            for local in ("zhiwei.rajan2", "hassan.ali", "m.lim", "sales")
        ),
    ]
    joined = {(each.name, each.email) for each in build_contacts_from_facts(found, website=SITE)}
    assert joined == {
        ("Zhi Wei Rajan", "zhiwei.rajan2@acme.sg"),
        ("Ali Hassan", "hassan.ali@acme.sg"),
        ("Mei Lim", ""),  # m.lim@ could be either's
        ("Min Lim", ""),
        ("", "m.lim@acme.sg"),
        ("", "sales@acme.sg"),
    }


def test_two_addresses_that_spell_one_name_join_nobody():
    found = [finding(FactField.PERSON, "Ann Tan | Director")]
    found += [finding(FactField.EMAIL, f"ann.tan{digit}@acme.sg") for digit in ("", "2")]
    [ann] = [each for each in build_contacts_from_facts(found, website=SITE) if each.name]
    assert ann.email == ""


def test_two_people_of_one_name_on_a_page_are_two_contacts():
    found = [
        finding(FactField.PERSON, "Ann Tan | Director | ann.tan@acme.sg"),
        finding(FactField.PERSON, "Ann Tan | Clerk"),
    ]
    contacts = build_contacts_from_facts(found, website=SITE)
    assert {(each.title, each.email) for each in contacts} == {
        ("Director", "ann.tan@acme.sg"),
        ("Clerk", ""),
    }
    assert len({each.key for each in contacts}) == 2


def test_one_person_on_two_pages_is_one_contact_with_all_that_is_known():
    found = [
        finding(FactField.PERSON, "Ann Tan | CEO", confidence=0.9),
        finding(FactField.PERSON, "ann tan | Chief Executive | a@acme.sg", source=f"{SITE}team"),
        finding(FactField.PERSON, "Ann Tan | +6561234567", source=f"{SITE}about"),
    ]
    [ann] = build_contacts_from_facts(found, website=SITE)
    assert (ann.name, ann.title, ann.email, ann.phone) == (
        "Ann Tan",
        "CEO",
        "a@acme.sg",
        "+6561234567",
    )


def test_an_address_with_a_persons_name_counts_by_the_same_rule_as_any_other():
    found = [
        finding(FactField.PERSON, "Ann Tan | CEO | ann@news.test", source="https://news.test/x"),
        replace(
            finding(FactField.PERSON, "Bob Lim | CTO | bob@acme.sg"), method=Method.LLM
        ),  # a model does not say whose an address is
    ]
    assert [each.email for each in build_contacts_from_facts(found, website=SITE)] == ["", ""]


def test_a_contact_keeps_its_key_when_its_address_becomes_known_or_changes():
    before = contact(name="Ann Tan", title="Director")
    [known] = merge_contacts([before], [contact("ann@acme.sg", "Ann Tan", 0.8)])
    assert (known.email, known.title, known.key) == ("ann@acme.sg", "Director", before.key)
    verified = replace(known, verdict=EmailStatus.VALID)
    [changed] = merge_contacts([verified], [contact("a.tan@acme.sg", "Ann Tan", 0.8)])
    assert (changed.email, changed.key) == ("a.tan@acme.sg", before.key)
    assert changed.verdict is EmailStatus.UNVERIFIED  # it was the other address's


def test_a_name_and_an_address_that_were_two_contacts_become_the_persons_one():
    known = [contact("ann.tan@acme.sg", verdict=EmailStatus.VALID), contact(name="Ann Tan")]
    [ann] = merge_contacts(known, [contact("ann.tan@acme.sg", "Ann Tan", 0.8)])
    assert (ann.key, ann.verdict) == ("ann tan", EmailStatus.VALID)


def test_a_person_who_decides_and_can_be_written_to_is_written_to_first():
    chief = contact(name="Ann Tan", title="CEO", confidence=0.9)
    head = contact("b@acme.sg", "Bob Lim", title="Head of Sales")
    clerk = contact("c@acme.sg", "Cat Ng", title="Clerk", verdict=EmailStatus.VALID)
    box = contact("info@acme.sg", verdict=EmailStatus.VALID, confidence=1.0)
    assert choose_best_contact(record(chief, clerk, box, head)) == head
    assert choose_best_contact(record(chief, clerk, box)) == chief
    assert choose_best_contact(record(box)) == box
    assert find_own_mailbox(record(chief, box)) == box
    assert list_own_people(record(chief, box, clerk)) == (chief, clerk)
    valid = replace(head, email="v@acme.sg", verdict=EmailStatus.VALID)
    assert choose_best_contact(record(head, valid)) == valid
    bounced = replace(head, verdict=EmailStatus.INVALID)
    assert choose_best_contact(record(bounced, clerk)) == bounced  # by seniority alone
    assert choose_best_contact(record(bounced, replace(clerk, title="Manager"))).name == "Cat Ng"


def test_addresses_of_people_who_decide_are_verified_first():
    many = [contact(f"clerk{n}@acme.sg", f"Clerk {n}", 0.9) for n in range(5)]
    chief = contact("ann@acme.sg", "Ann Tan", 0.1, title="Founder")
    head = contact("bob@acme.sg", "Bob Lim", 0.1, title="Head of IT")
    box = contact("info@acme.sg", confidence=1.0)
    assert choose_emails_to_verify([box, *many, head, chief])[:2] == ("ann@acme.sg", "bob@acme.sg")
    assert "info@acme.sg" not in choose_emails_to_verify([box, *many])


def test_a_mailbox_is_no_person_to_write_to():
    assert not has_reachable_person([contact("info@acme.sg"), contact(name="Ann Tan")])
    assert not has_reachable_person([contact("a@acme.sg", "Ann", verdict=EmailStatus.INVALID)])
    assert has_reachable_person([contact("ann@acme.sg", "Ann")])


def test_later_nights_verify_the_addresses_that_are_left():
    contacts = tuple(
        Contact(email=f"p{n}@acme.sg", source="site", confidence=1 - n / 10) for n in range(8)
    )
    nights = []
    while has_unverified_email(contacts):
        chosen = choose_emails_to_verify(contacts)
        nights.append([email for email in chosen if has_unverified_email(contacts)])
        contacts = apply_verdicts(contacts, dict.fromkeys(chosen, EmailStatus.VALID))
    assert [len(night) for night in nights] == [3, 3, 3]
    assert nights[:2] == [[f"p{n}@acme.sg" for n in range(3)], [f"p{n}@acme.sg" for n in (3, 4, 5)]]
    assert nights[2] == ["p6@acme.sg", "p7@acme.sg", "p0@acme.sg"]  # whose verdict may be old
    assert has_unverified_email([contacts[0], replace(contacts[1], verdict=EmailStatus.UNVERIFIED)])
