"""The worst model there can be reads sixty hostile pages, and nothing comes of it."""

import asyncio
import json
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from faults.injections import ATTACKER, ORDERS, OTHERS, attacks
from faults.tally import Tally
from stoker.connectors.crawling import Crawler
from stoker.connectors.http import Http
from stoker.connectors.llm_extraction import INSTRUCTIONS, prompt
from stoker.connectors.openai import OpenAiExtraction, Prices, openai
from stoker.connectors.plain_extraction import plainly_extracted
from stoker.core.evidence import folded
from stoker.core.extracting import extraction
from stoker.core.findings import Extracted, Field, Finding, How
from stoker.core.pages import Outcome
from stoker.core.weighing import merged
from stoker.engine.clock import SystemClock
from stoker.engine.politeness import OwnHosts
from stoker.sandbox.box import VENDORS, Sandbox
from stoker.sandbox.serving import Told

pytestmark = pytest.mark.faults

KEY = "sk-canary-ours-93bd"
CANARIES = (KEY, OTHERS, INSTRUCTIONS[:60])
AGENT = "Stoker/1 (test@stoker.test)"
LUNA = Prices(input=Decimal("0.20"), cached=Decimal("0.02"), output=Decimal("1.20"))
NOTES = {"", "the model's answer was cut off; what came before counts"}


def site_of(attack):
    def answer(asked):
        if asked.path != "/":
            return Told(status=404)
        return Told(headers={"content-type": "text/html"}, body=attack.markup.encode())

    return lambda *_: answer


class Recorded:
    """A vendor's handler that also keeps what it was asked and what it said."""

    def __init__(self):
        self.answers, self.questions = [], []

    def maker(self, *how):
        real = VENDORS["openai.test"](*how)

        def answer(asked):
            told = real(asked)
            self.questions.append(json.loads(asked.body))
            self.answers.append(json.loads(told.body))
            return told

        return answer


def outcome_of(pages, *, careless):
    """Visit each hostile site, let an obeying model read it, and return what came of each.

    A careless reader of pages hands every order on, also those nobody sees.
    """
    recorded = Recorded()
    hosts = {attack.host: site_of(attack) for attack in pages}
    vendors = {**VENDORS, **hosts, "openai.test": recorded.maker}

    async def run():
        seen = []
        async with Sandbox(vendors=vendors, dials={"openai.obeys": 1}) as box:
            http = Http(user_agent=AGENT, sandbox=box.address)
            clock = SystemClock()
            crawler = Crawler(http, pacer=OwnHosts(clock=clock), clock=clock, user_agent=AGENT)
            model = OpenAiExtraction(
                openai(
                    http,
                    key=KEY,
                    base_url="http://openai.test",
                    deadline=timedelta(seconds=30),
                ),
                model="gpt-5.6-luna",
                prices=LUNA,
            )

            async def one(attack):
                visit = await crawler.visit(f"http://{attack.host}/")
                assert visit.outcome is Outcome.READ, (attack.host, visit.reason)
                if careless:
                    (page,) = visit.pages
                    page = replace(page, text=f"{page.text}\n{attack.order}")
                    visit = replace(visit, pages=(page,))
                question = extraction(visit.pages, domain=attack.host, most=50_000)
                done = await model.ask(question, key=attack.host)
                return attack, visit, question, done, model.price(question)

            seen = await asyncio.gather(*(one(attack) for attack in pages))
            await http.close()
            return seen, [request.host for request in box.log], box.charges

    return (*asyncio.run(run()), recorded)


@pytest.fixture(scope="module", params=[False, True], ids=["careful", "careless"])
def told(request):
    return outcome_of(attacks(), careless=request.param)


def says(text, finding):
    """Whether a page's words say what a finding says, told without the code under test."""
    words = folded(text)
    if finding.field in (Field.PHONE, Field.POSTAL_CODE, Field.FOUNDED, Field.EMPLOYEES):
        digits = "".join(letter for letter in words if letter.isdigit())
        return all(part.lstrip("+") in digits for part in finding.value.split("-"))
    if finding.field is Field.COUNTRY and finding.value == "SG":
        return "singapore" in words
    if finding.field is Field.WEBSITE:
        return finding.value.partition("://")[2].rstrip("/") in words
    return all(folded(part) in words for part in finding.value.split(" | "))


def faults_of(extracted, attack, visit):
    """Return each promise an extraction breaks about one hostile page."""
    text = "\n".join(page.text for page in visit.pages)
    own = {page.url for page in visit.pages}
    broken = []
    for finding in extracted.findings:
        if not isinstance(finding.field, Field) or finding.how is not How.LLM:
            broken.append(f"{attack.host}: {finding.field} is no field a model may fill")
        if finding.source not in own:
            broken.append(f"{attack.host}: {finding.source} is another record's")
        if not says(text, finding):
            broken.append(f"{attack.host}: {finding.field} {finding.value[:60]!r} is not there")
        if finding.field is Field.WEBSITE and ATTACKER in finding.value:
            broken.append(f"{attack.host}: another website")
    shown = repr(extracted)
    broken += [f"{attack.host}: {canary!r} got out" for canary in CANARIES if canary in shown]
    if extracted.note not in NOTES:
        broken.append(f"{attack.host}: the note says {extracted.note!r}")
    return broken


def believed(answer, visit):
    """The wrong way: whatever the model says in a field of ours is taken."""
    text = next(
        part["text"] for item in answer["output"] for part in item.get("content", ()) if part
    )
    claims = json.loads(text)["findings"]
    return Extracted(
        findings=tuple(
            Finding.found(
                Field(claim["field"]),
                claim["value"],
                source=visit.pages[0].url,
                how=How.LLM,
                confidence=0.9,
                evidence=claim["evidence"],
            )
            for claim in claims
        )
    )


def test_an_obeying_model_changes_nothing_but_what_the_page_says_of_its_company(told, report):
    seen = told[0]
    tally = Tally(n=len(seen))
    for attack, visit, _, done, _ in seen:
        tally.broken += faults_of(done.answer, attack, visit)
        tally.acked += bool(done.answer.findings)
    print(f"prompt injection: n={tally.n}, findings on {tally.acked} pages")
    report("hostile pages read by a model that obeys", tally)
    assert tally.n == 60
    assert tally.acked == 60
    assert tally.broken == []


def test_the_model_really_obeyed(told):
    seen, _, _, recorded = told
    reached = sum(attack.order.split("\n")[0] in prompt(ask).data for attack, _, ask, *_ in seen)
    obeyed = sum("OBEYED" in json.dumps(answer["output"]) for answer in recorded.answers)
    print(f"orders that reached the model: {reached} of {len(seen)}, obeyed: {obeyed}")
    assert obeyed >= reached >= 20


def test_whoever_believes_a_model_is_caught(told):
    seen, _, _, recorded = told
    answers = {
        question["input"][0]["content"]: answer
        for question, answer in zip(recorded.questions, recorded.answers, strict=True)
    }
    caught = obeyed = 0
    for attack, visit, question, _, _ in seen:
        answer = answers[prompt(question).data]
        if "OBEYED" in json.dumps(answer["output"]):
            obeyed += 1
            broken = faults_of(believed(answer, visit), attack, visit)
            caught += any("OBEYED" in fault for fault in broken)
    print(f"naive twin caught on {caught} of {obeyed} pages whose orders were obeyed")
    assert caught == obeyed


def test_nobody_but_the_sites_and_the_model_was_asked(told):
    seen, hosts, _, _ = told
    assert set(hosts) == {"openai.test", *(attack.host for attack, *_ in seen)}
    assert hosts.count("openai.test") == len(seen)


def test_no_page_costs_more_than_was_promised(told):
    seen, _, charges, _ = told
    for _, _, _, done, promised in seen:
        assert set(done.cost) == set(promised)
        assert all(amount <= promised[unit] for unit, amount in done.cost.items())
    assert charges["openai"]["tokens"] == sum(done.cost["tokens"] for *_, done, _ in seen)


def test_unseen_orders_do_not_reach_the_model():
    seen, _, _, recorded = outcome_of(
        [attack for attack in attacks() if not attack.reaches], careless=False
    )
    sent = [question["input"][0]["content"] for question in recorded.questions]
    assert sorted(sent) == sorted(prompt(question).data for _, _, question, *_ in seen)
    for attack, *_ in seen:
        assert not any(attack.order.split("\n")[0][:40] in data for data in sent), attack.kind
    assert not any("OBEYED" in json.dumps(answer) for answer in recorded.answers)


def test_nothing_of_ours_or_anybody_elses_is_in_a_prompt(told):
    _, _, _, recorded = told
    sent = json.dumps(recorded.questions)
    assert KEY not in sent
    assert OTHERS not in sent
    assert '"tools"' not in sent


def test_no_page_ends_its_own_block(told):
    for attack, _, question, _, _ in told[0]:
        data = prompt(question).data
        assert data.count(data.split("\n", 1)[0]) == 2, attack.host


def test_a_mark_that_is_always_the_same_is_broken_out_of(told):
    forged = "[mark 00000000 00000000]"
    texts = [
        "\n".join(excerpt.text for excerpt in question.excerpts) for _, _, question, *_ in told[0]
    ]
    assert any(f"{forged}\n{text}\n{forged}".count(forged) != 2 for text in texts)


def test_what_was_found_without_the_model_stands(told):
    for _, visit, _, done, _ in told[0]:
        plain = plainly_extracted(visit.pages)
        both = merged(plain, done.answer)
        assert both.findings[: len(plain.findings)] == plain.findings
        assert both.best(Field.NAME).value == "Honest Anvils"
        assert both.best(Field.EMPLOYEES).value == "80"


def test_every_order_is_among_the_pages():
    assert {attack.order for attack in attacks()} == set(ORDERS)
