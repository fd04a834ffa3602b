import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.accounts.facts import ExtractedFacts, Fact, FactField, Method, RejectedFact
from stoker.base.errors import PermanentError
from stoker.crawl.model import Excerpt
from stoker.vendors.extraction import (
    MAX_EXCERPTS,
    ExtractionQuery,
    build_extraction_query,
    decode_extracted_facts,
)

HOME = Excerpt(url="http://acme.test/", kind="home", text="Acme makes anvils.\nContact us")
ABOUT = Excerpt(url="http://acme.test/about", kind="about", text="Contact us\nSince 1999")

values = st.text(max_size=50)
findings = st.builds(
    Fact.build,
    st.sampled_from(FactField),
    values,
    source=values,
    how=st.sampled_from(Method),
    confidence=st.floats(0, 1),
    evidence=values,
)
dropped = st.builds(
    RejectedFact,
    field=st.sampled_from([field.value for field in FactField]),
    value=st.just("a value"),
    reason=st.just("a reason"),
)


def test_a_question_holds_each_line_once_without_our_headings():
    asked = build_extraction_query([HOME, ABOUT], domain="WWW.Acme.test", most=1_000)
    assert asked.domain == "acme.test"
    assert [excerpt.text for excerpt in asked.excerpts] == [HOME.text, "Since 1999"]


def test_a_question_is_never_longer_than_its_limit():
    long = Excerpt(url="http://acme.test/", text="word " * 10_000)
    asked = build_extraction_query([long, ABOUT], domain="", most=500)
    assert sum(len(excerpt.text) for excerpt in asked.excerpts) <= 500


def test_the_same_words_are_the_same_question_and_others_are_not():
    one = build_extraction_query([HOME], domain="acme.test", most=1_000)
    assert one.as_json() == build_extraction_query([HOME], domain="acme.test", most=900).as_json()
    assert (
        one.as_json()
        != build_extraction_query([HOME, ABOUT], domain="acme.test", most=1_000).as_json()
    )


@pytest.mark.parametrize(
    "excerpts",
    [
        (),
        (Excerpt(url="http://acme.test/", text=" \n "),),
        (HOME,) * (MAX_EXCERPTS + 1),
        (Excerpt(url="http://acme.test/", text="x" * 250_000),),
    ],
)
def test_a_question_without_words_or_with_too_many_is_refused(excerpts):
    with pytest.raises(PermanentError):
        ExtractionQuery(domain="", excerpts=excerpts)


@given(st.lists(findings, max_size=5), st.lists(dropped, max_size=3))
def test_findings_come_back_as_they_were_kept(found, refused):
    answer = ExtractedFacts(facts=tuple(found), rejected=tuple(refused), note="cut")
    kept = json.loads(json.dumps(answer.as_json()))
    assert decode_extracted_facts(kept) == answer


@pytest.mark.parametrize(
    "kept",
    [
        None,
        [],
        {"findings": []},
        {"findings": [["name", "Acme"]], "dropped": []},
        {"findings": [["no field", "a", "b", "llm", 0.5, ""]], "dropped": []},
        {"findings": [["name", "a", "b", "guess", 0.5, ""]], "dropped": []},
        {"findings": [["name", "a", "b", "llm", 7, ""]], "dropped": []},
        {"findings": [["name", "a", "b", "llm", True, ""]], "dropped": []},
        {"findings": [], "dropped": [["x"]]},
    ],
)
def test_what_is_none_of_ours_is_refused(kept):
    with pytest.raises(PermanentError):
        decode_extracted_facts(kept)


def test_an_answer_with_a_note_is_worth_less_long():
    assert ExtractedFacts(facts=(), note="cut").ttl < ExtractedFacts(facts=()).ttl
