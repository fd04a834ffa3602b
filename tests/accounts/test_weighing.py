from hypothesis import given
from hypothesis import strategies as st

from stoker.accounts.facts import SEVERAL, Extracted, Field, Finding, How, merged, surest


def finding(field, value, how, confidence):
    return Finding.found(field, value, source="http://a.test/", how=how, confidence=confidence)


words = st.sampled_from(["Acme", "ACME", "Other", "Third"])
plain_findings = st.lists(
    st.builds(
        finding,
        st.sampled_from(Field),
        words,
        st.sampled_from([how for how in How if how is not How.LLM]),
        st.floats(0, 1),
    ),
    max_size=8,
)
model_findings = st.lists(
    st.builds(finding, st.sampled_from(Field), words, st.just(How.LLM), st.floats(0, 1)), max_size=8
)


def test_a_model_fills_a_gap():
    model = Extracted(findings=(finding(Field.INDUSTRY, "Anvils", How.LLM, 0.6),))
    assert merged(Extracted(findings=()), model).best(Field.INDUSTRY).value == "Anvils"


def test_a_model_does_not_contradict_who_is_surer():
    plain = Extracted(findings=(finding(Field.EMPLOYEES, "50", How.JSON_LD, 0.9),))
    model = Extracted(findings=(finding(Field.EMPLOYEES, "999999", How.LLM, 0.6),))
    both = merged(plain, model)
    assert [each.value for each in both.findings] == ["50"]
    assert both.dropped[0].because == "json_ld says otherwise: 50"


def test_a_model_is_heard_beside_a_mere_guess():
    plain = Extracted(findings=(finding(Field.NAME, "Home", How.META, 0.4),))
    model = Extracted(findings=(finding(Field.NAME, "Acme", How.LLM, 0.6),))
    assert merged(plain, model).best(Field.NAME).value == "Acme"


def test_notes_of_both_are_kept():
    both = merged(Extracted(findings=(), note="one"), Extracted(findings=(), note="two"))
    assert both.note == "one; two"


@given(plain_findings, model_findings)
def test_merging_never_loses_or_outbids_what_was_found_without_a_model(plain, model):
    both = merged(Extracted(findings=tuple(plain)), Extracted(findings=tuple(model)))
    assert both.findings[: len(plain)] == tuple(plain)
    for field in set(Field) - SEVERAL:
        before = Extracted(findings=tuple(plain)).best(field)
        if before is not None and both.best(field).value != before.value:
            assert both.best(field).confidence > before.confidence


@given(plain_findings)
def test_each_value_stands_once_by_its_surest_finding(found):
    kept = surest(found)
    same = [(each.field, each.value.lower()) for each in kept]
    assert len(same) == len(set(same))
    for each in found:
        rival = next(
            k for k in kept if (k.field, k.value.lower()) == (each.field, each.value.lower())
        )
        assert rival.confidence >= each.confidence
