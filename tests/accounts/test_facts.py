from hypothesis import given
from hypothesis import strategies as st

from stoker.accounts.facts import (
    MULTI_VALUE_FIELDS,
    ExtractedFacts,
    Fact,
    FactField,
    Method,
    dedupe_facts,
    merge_extractions,
)


def finding(field, value, how, confidence):
    return Fact.build(field, value, source="http://a.test/", how=how, confidence=confidence)


words = st.sampled_from(["Acme", "ACME", "Other", "Third"])
plain_findings = st.lists(
    st.builds(
        finding,
        st.sampled_from(FactField),
        words,
        st.sampled_from([how for how in Method if how is not Method.LLM]),
        st.floats(0, 1),
    ),
    max_size=8,
)
model_findings = st.lists(
    st.builds(finding, st.sampled_from(FactField), words, st.just(Method.LLM), st.floats(0, 1)),
    max_size=8,
)


def test_a_model_fills_a_gap():
    model = ExtractedFacts(facts=(finding(FactField.INDUSTRY, "Anvils", Method.LLM, 0.6),))
    assert (
        merge_extractions(ExtractedFacts(facts=()), model).find_best(FactField.INDUSTRY).value
        == "Anvils"
    )


def test_a_model_does_not_contradict_who_is_surer():
    plain = ExtractedFacts(facts=(finding(FactField.EMPLOYEES, "50", Method.JSON_LD, 0.9),))
    model = ExtractedFacts(facts=(finding(FactField.EMPLOYEES, "999999", Method.LLM, 0.6),))
    both = merge_extractions(plain, model)
    assert [each.value for each in both.facts] == ["50"]
    assert both.rejected[0].reason == "json_ld says otherwise: 50"


def test_a_model_is_heard_beside_a_mere_guess():
    plain = ExtractedFacts(facts=(finding(FactField.NAME, "Home", Method.META, 0.4),))
    model = ExtractedFacts(facts=(finding(FactField.NAME, "Acme", Method.LLM, 0.6),))
    assert merge_extractions(plain, model).find_best(FactField.NAME).value == "Acme"


def test_notes_of_both_are_kept():
    both = merge_extractions(
        ExtractedFacts(facts=(), note="one"), ExtractedFacts(facts=(), note="two")
    )
    assert both.note == "one; two"


@given(plain_findings, model_findings)
def test_merging_never_loses_or_outbids_what_was_found_without_a_model(plain, model):
    both = merge_extractions(ExtractedFacts(facts=tuple(plain)), ExtractedFacts(facts=tuple(model)))
    assert both.facts[: len(plain)] == tuple(plain)
    for field in set(FactField) - MULTI_VALUE_FIELDS:
        before = ExtractedFacts(facts=tuple(plain)).find_best(field)
        if before is not None and both.find_best(field).value != before.value:
            assert both.find_best(field).confidence > before.confidence


@given(plain_findings)
def test_each_value_stands_once_by_its_surest_finding(found):
    kept = dedupe_facts(found)
    same = [(each.field, each.value.lower()) for each in kept]
    assert len(same) == len(set(same))
    for each in found:
        rival = next(
            k for k in kept if (k.field, k.value.lower()) == (each.field, each.value.lower())
        )
        assert rival.confidence >= each.confidence
