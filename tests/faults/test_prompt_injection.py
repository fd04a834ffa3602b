"""The worst model there can be reads sixty hostile pages, and nothing comes of it."""

import json

import pytest

from faults.injection_trials import KEY, faults_of, obeyed, outcome_of
from faults.injections import OTHERS, attacks
from stoker.accounts.facts import ExtractedFacts, Fact, FactField, Method, merge_extractions
from stoker.crawl.extract import extract_facts
from stoker.vendors.extraction import build_extraction_prompt

pytestmark = pytest.mark.faults


@pytest.fixture(scope="module", params=[False, True], ids=["careful", "careless"])
def told(request):
    return outcome_of(attacks(), careless=request.param)


def believed(answer, visit):
    """The wrong way: whatever the model says in a field of ours is taken."""
    text = next(
        part["text"] for item in answer["output"] for part in item.get("content", ()) if part
    )
    claims = json.loads(text)["findings"]
    return ExtractedFacts(
        facts=tuple(
            Fact.build(
                FactField(claim["field"]),
                claim["value"],
                source=visit.pages[0].url,
                how=Method.LLM,
                confidence=0.9,
                evidence=claim["evidence"],
            )
            for claim in claims
        )
    )


def test_an_obeying_model_changes_nothing_but_what_the_page_says_of_its_company(told, report):
    tally = report("D10 hostile pages read by a model that obeys", obeyed(told[0]))
    assert tally.n == 60
    assert tally.acked == 60
    assert tally.broken == []
    assert told[2]["openai"]["tokens"] == sum(done.cost["tokens"] for *_, done, _ in told[0])


def test_the_model_really_obeyed(told):
    seen, _, _, recorded = told
    reached = sum(
        attack.order.split("\n")[0] in build_extraction_prompt(ask).data
        for attack, _, ask, *_ in seen
    )
    obeyed = sum("OBEYED" in json.dumps(answer["output"]) for answer in recorded.answers)
    print(f"orders that reached the model: {reached} of {len(seen)}, obeyed: {obeyed}")
    assert obeyed >= reached >= 20


def test_believing_the_model_is_caught(told):
    seen, _, _, recorded = told
    answers = {
        question["input"][0]["content"]: answer
        for question, answer in zip(recorded.questions, recorded.answers, strict=True)
    }
    caught = obeyed = 0
    for attack, visit, question, _, _ in seen:
        answer = answers[build_extraction_prompt(question).data]
        if "OBEYED" in json.dumps(answer["output"]):
            obeyed += 1
            broken = faults_of(believed(answer, visit), attack, visit)
            caught += any("OBEYED" in fault for fault in broken)
    print(f"naive twin caught on {caught} of {obeyed} pages whose orders were obeyed")
    assert caught == obeyed


def test_only_the_sites_and_the_model_were_requested(told):
    seen, hosts, _, _ = told
    assert set(hosts) == {"openai.test", *(attack.host for attack, *_ in seen)}
    assert hosts.count("openai.test") == len(seen)


def test_unseen_orders_do_not_reach_the_model():
    seen, _, _, recorded = outcome_of(
        [attack for attack in attacks() if not attack.reaches], careless=False
    )
    sent = [question["input"][0]["content"] for question in recorded.questions]
    assert sorted(sent) == sorted(
        build_extraction_prompt(question).data for _, _, question, *_ in seen
    )
    for attack, *_ in seen:
        assert not any(attack.order.split("\n")[0][:40] in data for data in sent), attack.kind
    assert not any("OBEYED" in json.dumps(answer) for answer in recorded.answers)


def test_no_secret_is_in_a_prompt(told):
    _, _, _, recorded = told
    sent = json.dumps(recorded.questions)
    assert KEY not in sent
    assert OTHERS not in sent
    assert '"tools"' not in sent


def test_no_page_ends_its_own_block(told):
    for attack, _, question, _, _ in told[0]:
        data = build_extraction_prompt(question).data
        assert data.count(data.split("\n", 1)[0]) == 2, attack.host


def test_a_mark_that_is_always_the_same_is_broken_out_of(told):
    forged = "[mark 00000000 00000000]"
    texts = [
        "\n".join(excerpt.text for excerpt in question.excerpts) for _, _, question, *_ in told[0]
    ]
    assert any(f"{forged}\n{text}\n{forged}".count(forged) != 2 for text in texts)


def test_what_was_found_without_the_model_stands(told):
    for _, visit, _, done, _ in told[0]:
        plain = extract_facts(page.facts for page in visit.pages)
        both = merge_extractions(plain, done.answer)
        assert both.facts[: len(plain.facts)] == plain.facts
        assert both.find_best(FactField.NAME).value == "Honest Anvils"
        assert both.find_best(FactField.EMPLOYEES).value == "80"
