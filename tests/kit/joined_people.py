"""Count the people of the sandbox that are joined with the address their own site shows.

The truth is the sandbox's own. A person counts when the pages that a lookup reads show name, title
and address; it is joined when one contact has all three, and wrong is any named contact whose
address or title is another's.
"""

from __future__ import annotations

from dataclasses import dataclass

from stoker.accounts.contacts import build_contacts_from_facts
from stoker.accounts.model import Contact
from stoker.crawl.extract import extract_facts, read_page
from stoker.sandbox.sites.layout import build_layout
from stoker.sandbox.sites.pages import PageSource, build_page
from stoker.sandbox.world.companies import Company, World

_READ_KINDS = frozenset({"home", "about", "contact", "team"})


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinCount:
    companies: int
    shown: int
    joined: int
    wrong: int

    def __str__(self) -> str:
        return (
            f"n={self.companies} companies: {self.joined} of {self.shown} people joined with "
            f"their address, {self.wrong} wrong"
        )


def count_joined_people(*, seed: int, companies: int) -> JoinCount:
    """Read the sites of a world and compare the contacts with its people."""
    world = World(seed=seed, size=companies)
    shown = joined = wrong = 0
    for index in range(companies):
        company = world.get_company(index)
        markup, contacts = _read_site(world, company)
        truth = {each.email: each for each in company.people}
        by_email = {each.email: each for each in contacts if each.email and each.name}
        for email, person in truth.items():
            if all(text in markup for text in (email.partition("@")[0], person.name, person.title)):
                shown += 1
                found = by_email.get(email)
                joined += found is not None and (found.name, found.title) == (
                    person.name,
                    person.title,
                )
        for email, found in by_email.items():
            person = truth.get(email)
            wrong += person is None or found.name != person.name
            wrong += person is not None and found.title not in ("", person.title)
    return JoinCount(companies=companies, shown=shown, joined=joined, wrong=wrong)


def _read_site(world: World, company: Company) -> tuple[str, tuple[Contact, ...]]:
    layout = build_layout(world, company)
    markup, facts = [], []
    for path, place in layout.pages.items():
        if place.kind not in _READ_KINDS:
            continue
        markup.append(build_page(PageSource(world, company, layout, place, 0)))
        reading = read_page(
            markup[-1].encode(),
            content_type="text/html; charset=utf-8",
            url=f"http://{company.domain}{path}",
            kind=place.kind,
        )
        facts.append(reading.facts)
    website = f"http://{company.domain}/"
    return "".join(markup).replace("&amp;", "&"), build_contacts_from_facts(
        extract_facts(facts).facts, website=website
    )
