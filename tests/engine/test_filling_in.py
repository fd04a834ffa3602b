"""The gaps a site leaves, filled in by the make-believe vendors through the real connectors."""

from stoker.connectors.plain_extraction import plainly_extracted
from stoker.core.companies import Company, CompanyId
from stoker.core.filling_in import pages_wanted, read_for_us, size_wanted
from stoker.core.findings import Field, best
from stoker.core.pages import Outcome, SiteVisit
from vendor_desk import at_desk


def told_of(desk, number):
    there = desk.box.world.company(number)
    return there, Company(
        id=CompanyId(there.uen), name=there.name, website=f"http://{there.domain}/"
    )


def test_a_size_nobody_knew_is_paid_for_once_and_known_from_then_on():
    async def work(desk):
        seen = []
        for number in range(12):
            there, company = told_of(desk, number)
            question = size_wanted(company, [])
            answer = (await desk.asking.ask(desk.companies, question, account=company.id)).answer
            again = (await desk.asking.ask(desk.companies, question, account=company.id)).answer
            findings = answer.findings(source="lusha")
            seen.append((there.employees, findings, answer == again))
            assert not findings or size_wanted(company, findings) is None
        return seen, desk.charged("lusha")

    seen, charged = at_desk(work)
    assert all(same for *_, same in seen)
    known = [(true, best(found, Field.EMPLOYEES).value) for true, found, _ in seen if found]
    assert len(known) >= 6
    for true, said in known:
        low, _, high = said.partition("-")
        assert int(low) <= true <= int(high or low)
    assert 0 < charged <= 12


def test_a_site_that_shows_us_little_is_read_for_us_and_its_words_are_facts_like_others():
    async def work(desk):
        facts = []
        for number in range(30):
            _, company = told_of(desk, number)
            visit = SiteVisit(site="x", outcome=Outcome.THIN, reason="it says next to nothing")
            question = pages_wanted(company.website, visit)
            texts = (await desk.asking.ask(desk.reading, question, account=company.id)).answer
            words = read_for_us(company.website, texts)
            facts.append(plainly_extracted((), told=words).findings)
        return facts, desk.charged("tavily")

    facts, charged = at_desk(work)
    assert sum(bool(found) for found in facts) >= 10
    assert 0 < charged <= 30
