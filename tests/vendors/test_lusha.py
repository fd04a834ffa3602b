"""Lusha as it answers in the sandbox: people, addresses, sizes, and what they cost."""

import json
from datetime import timedelta

import pytest

from stoker.base.errors import PermanentError, TransientError, UncertainError
from stoker.base.retry import MAX_WAIT
from stoker.vendors.lusha import (
    People,
    PeopleQuery,
    Person,
    RevealedEmails,
    RevealQuery,
    build_contacts,
)
from vendor_desk import Saying, at_desk


async def told(said, question):
    """What the connector for this question makes of a vendor that says this."""

    async def work(here):
        needs = {PeopleQuery: here.people, RevealQuery: here.reveal}
        return await needs[type(question)].ask(question, key="k")

    return await at_desk(work, says=said if isinstance(said, Saying) else Saying(said))


PEOPLE, REVEAL = (
    PeopleQuery(domain="a.test"),
    RevealQuery(ids=("1", "2")),
)


async def test_people_are_found_by_domain_and_revealed_by_id_each_at_its_price():
    async def work(here):
        company = next(
            company for company in map(here.box.world.get_company, range(50)) if company.people
        )
        found = await here.people.ask(PeopleQuery(domain=company.domain), key="k")
        before = here.charged("lusha")
        chosen = found.answer.choose_most_senior(3)
        question = RevealQuery(ids=tuple(person.id for person in chosen))
        revealed = await here.reveal.ask(question, key="k")
        return company, found, before, chosen, question, revealed, here.charged("lusha") - before

    company, found, before, chosen, question, revealed, charged = await at_desk(work)
    assert found.cost == {"calls": 1, "credits": 1}
    assert before == 1
    assert {person.name for person in found.answer.people} <= {each.name for each in company.people}
    assert revealed.cost["credits"] == charged == len(revealed.answer.emails) <= len(question.ids)
    contacts = build_contacts(chosen, revealed.answer, source="lusha")
    known = {each.name: each.email.lower() for each in company.people}
    assert contacts
    assert all(contact.email == known[contact.name] for contact in contacts)


async def test_everybody_asked_for_is_told_or_withheld_with_a_reason():
    async def work(here):
        ids = [
            f"ct-{company.index}-{nth}"
            for company in map(here.box.world.get_company, range(60))
            for nth in range(len(company.people))
        ]
        question = RevealQuery(ids=(*ids[:98], "ct-9999-0", "nobody"))
        return question, (await here.reveal.ask(question, key="k")).answer

    question, revealed = await at_desk(work)
    emails, withheld = dict(revealed.emails), dict(revealed.withheld)
    assert emails.keys() | withheld.keys() | {"ct-9999-0", "nobody"} == set(question.ids)
    assert not emails.keys() & withheld.keys()
    assert {"COMPLIANCE_RESTRICTED", "NO_EMAIL"} <= set(withheld.values())


async def test_it_reveals_addresses_alone_and_buys_nothing_elsewhere():
    vendor = Saying({"results": []})
    await told(vendor, REVEAL)
    assert vendor.bodies == [{"ids": ["1", "2"], "reveal": ["emails"], "waterfallEnabled": False}]


async def test_a_data_point_revealed_before_costs_nothing_again():
    async def work(here):
        person = here.box.world.get_company(3)
        found = (await here.people.ask(PeopleQuery(domain=person.domain), key="k")).answer
        question = RevealQuery(ids=tuple(each.id for each in found.choose_most_senior(2)))
        return [(await here.reveal.ask(question, key="k")).cost["credits"] for _ in range(2)]

    assert (await at_desk(work))[1] == 0


async def test_a_company_nobody_knows_is_an_answer_too():
    async def work(here):
        unknown = PeopleQuery(domain="nobody-lives-here.test")
        return await here.people.ask(unknown, key="k")

    people = await at_desk(work)
    assert people.answer == People()
    assert people.answer.ttl < People(people=(Person(id="1", name="A"),)).ttl


@pytest.mark.parametrize("question", [PEOPLE, REVEAL], ids=lambda q: type(q).__name__)
@pytest.mark.parametrize("data", [None, [], {}, {"results": {}}, {"results": "x"}])
async def test_an_answer_without_results_may_have_been_charged(question, data):
    with pytest.raises(UncertainError):
        await told(data, question)


@pytest.mark.parametrize(
    ("billing", "counted"),
    [({"creditsCharged": 7}, 7), ({"creditsCharged": -7}, 2), ({}, 2), (None, 2), ("x", 2)],
)
async def test_it_counts_what_the_vendor_says_and_otherwise_what_was_promised(billing, counted):
    assert (await told({"results": [], "billing": billing}, REVEAL)).cost["credits"] == counted


async def test_odd_items_lose_nobody_else():
    odd = [None, 1, [], {}, {"id": 7}, {"id": "x", "firstName": {}}, {"error": "no"}]
    good = {"id": "1", "firstName": "Tan", "lastName": "Wei", "has": ["emails"], "jobTitle": []}
    found = (await told({"results": [*odd, good, good]}, PEOPLE)).answer
    assert found == People(people=(Person(id="1", name="Tan Wei", has_email=True),))
    emails = [{"email": "not one"}, {"email": None}, {"email": " Tan@A.test "}]
    revealed = (
        await told({"results": [*odd, {"id": "1", "emails": emails}, {"id": "9"}]}, REVEAL)
    ).answer
    assert revealed == RevealedEmails(emails=(("1", "tan@a.test"),))


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"x-minute-requests-left": "0"}, timedelta(minutes=1)),
        ({"x-minute-requests-left": "0", "x-daily-requests-left": "0"}, MAX_WAIT),
        ({"x-hourly-requests-left": "0"}, MAX_WAIT),
        ({"x-hourly-requests-left": "0", "retry-after": "5"}, timedelta(seconds=5)),
        ({"x-hourly-requests-left": "3"}, None),
        ({}, None),
    ],
)
async def test_a_used_up_window_says_how_long_to_wait(headers, wait):
    with pytest.raises(TransientError) as raised:
        await told(Saying({}, status=429, headers=headers), PEOPLE)
    assert raised.value.retry_after == wait


def test_the_most_senior_with_an_address_are_worth_their_price():
    people = People(
        people=(
            Person(id="1", name="A", title="Engineer", has_email=True),
            Person(id="2", name="B", title="Managing Director", has_email=True),
            Person(id="3", name="C", title="Founder"),
            Person(id="4", name="D", seniority="C-Suite", has_email=True),
        )
    )
    assert [person.id for person in people.choose_most_senior(2)] == ["4", "2"]


@pytest.mark.parametrize("domain", ["", "A.test", "a.test/x", "10.0.0.1", "a b.test", "a.test:80"])
def test_a_company_is_found_by_its_plain_domain(domain):
    with pytest.raises(PermanentError):
        PeopleQuery(domain=domain)


@pytest.mark.parametrize("ids", [(), ("1", "1"), ("",), tuple(map(str, range(101)))])
def test_a_hundred_people_at_most_are_revealed_each_once(ids):
    with pytest.raises(PermanentError):
        RevealQuery(ids=ids)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (PEOPLE, People(people=(Person(id="1", name="A", title="T", has_email=True),))),
        (REVEAL, RevealedEmails(emails=(("1", "a@a.test"),), withheld=(("2", "NO_EMAIL"),))),
    ],
    ids=["people", "reveal"],
)
def test_answers_come_back_from_what_is_kept_as_they_were(question, answer):
    assert question.decode_answer(json.loads(json.dumps(answer.as_json()))) == answer
    for odd in (None, [], {}, {"people": 1}, {"emails": [1], "withheld": []}):
        with pytest.raises(PermanentError):
            question.decode_answer(odd)


async def test_a_check_costs_nothing_and_says_what_is_left():
    async def work(here):
        return await here.people.check(), here.charged("lusha")

    health, charged = await at_desk(work)
    assert (health.ok, health.detail, charged) == (True, "100000 of 100000 credits left", 0)
