"""People on a page: who stands with which address, and who does not."""

import pytest

from kit.joined_people import count_joined_people
from stoker.accounts.facts import FactField
from stoker.accounts.people import parse_person
from stoker.crawl.extract import read_page

URL = "https://acme.test/team"


def people(markup, kind="team"):
    body = f"<html><body><main>{markup}</main></body></html>".encode()
    reading = read_page(body, content_type="text/html; charset=utf-8", url=URL, kind=kind)
    found = [parse_person(each.value) for each in reading.facts if each.field is FactField.PERSON]
    return {(each.name, each.title, each.email, each.phone) for each in found}


CARD = (
    "<div class=card><h3>Jane Tan</h3><p>Sales Director</p>"
    '<a href="mailto:boss@acme.test">Write</a><a href="tel:+6561234567">Call</a></div>'
)
JANE = ("Jane Tan", "Sales Director", "boss@acme.test", "+6561234567")


@pytest.mark.parametrize(
    ("markup", "expected"),
    [
        (CARD, JANE),
        ("<p>Jane Tan, Sales Director, boss@acme.test, +65 6123 4567</p>", JANE),
        (
            "<table><tr><td>Jane Tan</td><td>Sales Director</td><td>boss@acme.test</td></tr>"
            "<tr><td>Ali Hassan</td><td>Manager</td><td>chief@acme.test</td></tr></table>",
            ("Jane Tan", "Sales Director", "boss@acme.test", ""),
        ),
        (
            "<li>Jane Tan – Sales Director<br>Email: boss (at) acme (dot) test</li>",
            ("Jane Tan", "Sales Director", "boss@acme.test", ""),
        ),
        (
            "<div><b>Jane Tan</b><br>jane.tan@acme.test</div>",
            ("Jane Tan", "", "jane.tan@acme.test", ""),
        ),
        (
            '<script type="application/ld+json">{"@type": "Organization", "name": "Acme", '
            '"employee": {"@type": "Person", "name": "Jane Tan", "jobTitle": "Sales Director", '
            '"email": "mailto:boss@acme.test", "telephone": "+65 6123 4567"}}</script>',
            JANE,
        ),
    ],
    ids=["card", "line", "row", "item", "address that spells the name", "structured data"],
)
def test_what_stands_in_one_block_is_one_person(markup, expected):
    assert expected in people(markup)


@pytest.mark.parametrize(
    "markup",
    [
        # Two people and one address: whose is it?
        "<div><p>Jane Tan, Director</p><p>Ali Hassan, Manager</p><p>x@acme.test</p></div>",
        # One person and two addresses.
        "<div><p>Jane Tan, Director</p><p>x@acme.test</p><p>y@acme.test</p></div>",
        # A mailbox is the company's.
        "<div><p>Jane Tan, Director</p><p>info@acme.test</p></div>",
        # The only person of a page does not own the only address in its footer.
        f"<div><p>Jane Tan, Director</p>{'<p>We build boats.</p>' * 20}<p>x@acme.test</p></div>",
        # A visitor does not see it.
        '<div><p>Jane Tan, Director</p><p style="display:none">x@acme.test</p></div>',
        # One hotline for all.
        "<div><p>Jane Tan, Director</p><p>+65 6123 4567</p></div>"
        "<div><p>Ali Hassan, Manager</p><p>+65 6123 4567</p></div>",
    ],
    ids=["two people", "two addresses", "mailbox", "far away", "hidden", "shared phone"],
)
def test_what_could_be_anothers_is_not_joined(markup):
    found = people(markup)
    assert ("Jane Tan", "Director", "", "") in found
    assert not any(email or phone for _, _, email, phone in found)


def test_a_page_of_customers_gives_no_people():
    assert people(CARD, kind="customers") == set()


def test_people_of_the_sandbox_have_their_own_addresses():
    count = count_joined_people(seed=1, companies=60)
    print(count)
    assert count.wrong == 0
    assert count.shown >= 60
    assert count.joined >= count.shown * 180 / 185
