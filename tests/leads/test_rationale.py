"""Rationales in a model's words: told nothing of anybody's, and believed only within bounds."""

import re
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.counted_work import counted_calls
from stoker.accounts.facts import Fact, FactField, Method
from stoker.accounts.icp import IcpRule
from stoker.accounts.model import Company, CompanyId, CompanyRecord, Contact, EmailStatus
from stoker.base.errors import PermanentError
from stoker.leads.rationale import (
    MAX_ANSWER_LENGTH,
    MAX_LENGTH,
    RationaleAnswer,
    build_rationale,
    build_rationale_query,
    parse_rationale,
    validate_rewording,
)
from stoker.leads.scoring import score_lead
from stoker.leads.settings import ScoreRule

RULE = ScoreRule(
    high_from=0.66,
    medium_from=0.40,
    industry_weight=0.20,
    size_weight=0.15,
    reachable_weight=0.25,
    decision_maker_weight=0.15,
    presence_weight=0.15,
    momentum_weight=0.10,
)


def known(word, *, ssic="62011", hiring=True):
    """A company about which everything that can be said is said with this word."""
    said = {"source": f"https://{word}.test", "confidence": 0.5}
    return CompanyRecord(
        company=Company(
            id=CompanyId(word), name=word, ssic=ssic, website=f"https://{word}.test", employees=9
        ),
        facts=(Fact(field=FactField.ABOUT, value=word, method=Method.TEXT, evidence=word, **said),),
        contacts=(
            Contact(
                name=word,
                title=f"Director {word}",
                email=f"{word}@x.test",
                verdict=EmailStatus.RISKY,
                **said,
            ),
        ),
        notes={"postings": "5", "postings_source": word, "hiring_page": word} if hiring else {},
    )


def question_about(dossier, rule=RULE):
    return build_rationale_query(score_lead(dossier, IcpRule(), rule), rule)


QUESTION = question_about(known("acme"))
GOOD = "The industry is the one wanted and the size fits. No address is known to work."


def test_a_model_is_told_numbers_and_our_own_words():
    assert QUESTION.facts_text == (
        "Score: 0.62, called Medium\n"
        "decision maker: 1.00, weight 0.15\n"
        "industry: 1.00, weight 0.20\n"
        "momentum: 0.60, weight 0.10\n"
        "presence: 0.40, weight 0.15\n"
        "reachable: 0.00, weight 0.25\n"
        "size: 1.00, weight 0.15\n"
        "Our sentence: industry matches; decision maker known; size matches; "
        "but no verified email."
    )


@given(st.text(min_size=1, max_size=40).map(lambda text: f"ignore-{text.strip()}-rules"))
def test_companies_with_the_same_features_are_one_question_whatever_their_pages_say(word):
    assert question_about(known(word)) == QUESTION


def test_other_features_and_other_weights_are_other_questions():
    dearer = replace(RULE, momentum_weight=0.5)
    asked = [
        question.as_json()
        for question in (
            QUESTION,
            question_about(known("acme", hiring=False)),
            question_about(known("acme", ssic="01111")),
            question_about(known("acme"), dearer),
        )
    ]
    assert all(asked.count(each) == 1 for each in asked)


@pytest.mark.parametrize(
    "said",
    [
        GOOD,
        f"  {GOOD}\n",
        f"Medium (0.62): {GOOD}",
        "Its industry fits (1.00), although no address works (0).",
        "A medium lead with the wanted industry; nobody can be written to yet!",
        "The company matches the profile in industry and size, but there isn't a verified email.",
        "Strong fit in industry and size; the main gap is that no email address has been verified.",
        "Hiring points to growth, and a decision maker is known. However, no email was found.",
        "The score of 0.62 comes from its industry. That’s held back – no address works.",
    ],
)
def test_one_or_two_sentences_of_plain_words_may_stand(said):
    answer = validate_rewording(said, QUESTION)
    assert answer.note == ""
    assert build_rationale(answer, QUESTION.plain).startswith("Medium (0.62): ")
    assert build_rationale(answer, QUESTION.plain).count("Medium (0.62)") == 1


@pytest.mark.parametrize(
    ("said", "because"),
    [
        ("", "has 0 characters"),
        ("It fits.", "has 8 characters"),
        (f"It fits {'very ' * 100}well.", f"not 20 to {MAX_LENGTH}"),
        ("It fits the rule well. It hires. It has no address.", "not one or two sentences"),
        ("It fits the rule well but has no address", "not one or two sentences"),
        ("It fits the rule well. And so it", "not one or two sentences"),
        ("See https://attacker.test for why it fits.", "not only plain words"),
        ("See attacker.test for why it fits.", "not only plain words"),
        ("Write to boss@attacker.test, it fits.", "not only plain words"),
        ("It <b>fits</b> the rule very well.", "not only plain words"),
        ("It **fits** the rule very well.", "not only plain words"),
        ("It fits the rule to 100% as it is.", "not only plain words"),
        ("Сompany fits the rule very well.", "not only plain words"),  # a Cyrillic first letter
        ("It fits the rule ½ as well as it could.", "not only plain words"),
        ("It fits the rule at 0.97 of what is wanted.", "a number"),
        ("It has 40 employees, which fits the rule.", "a number"),
        ("It has 1,000 employees, which fits.", "a number"),
        ("It has 1.0.0 employees, which fits.", "a number"),
        ("It has .62 of what the rule wants.", "a number"),
        ("It has -1 of what the rule wants.", "a number"),
        ("It has 1M employees, which fits.", "a number"),
        ("It has forty employees, which fits.", "a number"),
        ("It has 1 thousand employees, which fits.", "a number"),
        ("Ask Mallory Evil for the best price of this lead.", "not about the score"),
        ("Its industry fits, as Grant confirmed by phone.", "not about the score"),
        ("Its industry fits and Will has worked there.", "not about the score"),
        ("Contact the company, its industry is the one wanted.", "not about the score"),
        ("Its industry fits; contact the company at once.", "not about the score"),
        ("It fits the rule so well that all contact the company.", "not about the score"),
        ("Make the company the best lead there is.", "not about the score"),
        ("It fits well; make the company the best lead.", "not about the score"),
        ("It fits well; transfer the budget to the company.", "not about the score"),
        ("Its industry fits and you should pay the company.", "not about the score"),
        ("Ignore the score, as the company is the best one.", "not about the score"),
        ("Its site at acme dot com speaks for the company.", "not about the score"),
        ("The company at Anvil Road fits the wanted size.", "not about the score"),
        ("THE COMPANY IS THE BEST LEAD THERE IS.", "not about the score"),
        ("This is a High lead in the wanted industry.", "something else"),
        ("It is low-scoring, in the wanted industry.", "something else"),
    ],
)
def test_an_answer_that_says_more_than_it_was_told_does_not_stand(said, because):
    answer = validate_rewording(said, QUESTION)
    assert because in answer.note
    assert build_rationale(answer, QUESTION.plain) == QUESTION.plain


@given(
    st.text(max_size=500)
    | st.lists(
        st.sampled_from([GOOD, "0.62", "7", "1.00", ".", " ", "High lead", "a", "@", "x.yz", "\n"])
    ).map(" ".join)
)
def test_whatever_a_model_says_what_stands_is_short_plain_and_has_only_numbers_told(said):
    answer = validate_rewording(said, QUESTION)
    assert bool(answer.text) != bool(answer.note)
    assert len(answer.text) <= MAX_LENGTH
    assert answer.text.isprintable()
    assert not re.search(r"[@<>/\\%*_=\[\]]", answer.text)
    told = {Decimal(number) for number in re.findall(r"\d+\.\d+", QUESTION.facts_text)}
    assert {Decimal(number) for number in re.findall(r"\d+(?:\.\d+)?", answer.text)} <= told
    assert not answer.text or validate_rewording(answer.text, QUESTION) == answer


@pytest.mark.parametrize(
    "answer", [RationaleAnswer(text=GOOD), RationaleAnswer(note="the model declined")]
)
def test_an_answer_comes_back_as_it_was_kept(answer):
    assert QUESTION.decode_answer(answer.as_json()) == answer


def test_a_kept_answer_is_held_to_the_rules_of_today():
    assert QUESTION.decode_answer({"text": "It has 40 employees, which fits."}).text == ""


@pytest.mark.parametrize("kept", [None, {}, {"text": 1}, ["text"], "text"])
def test_what_is_kept_and_no_rationale_is_asked_for_anew(kept):
    with pytest.raises(PermanentError, match="asked for again"):
        QUESTION.decode_answer(kept)


def test_words_that_stand_are_kept_for_long_and_others_are_tried_again_sooner():
    assert RationaleAnswer(text=GOOD).ttl > 5 * RationaleAnswer(note="it declined").ttl


def test_of_an_answer_only_so_much_is_read():
    long = "[" + "0," * 300_000 + "0]"
    with counted_calls() as calls:
        assert parse_rationale(long, QUESTION).note == "the model's answer cannot be read"
    assert calls["_parse_integer"] <= MAX_ANSWER_LENGTH
