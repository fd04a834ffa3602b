import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.accounts.evidence import normalize_text
from stoker.accounts.facts import Fact, FactField, Method, RejectedFact
from stoker.crawl.model import Excerpt
from stoker.vendors.claims import MAX_PER_FIELD, ClaimChecker

HOME = """Acme makes anvils and steel tools in Singapore.
ACME PTE. LTD. (UEN 197401143C), founded in 1974, has 50 to 100 employees.
Write to hello@acme.test, boss@gmail.com or see https://www.acme.test/about and
https://www.linkedin.com/company/acme. Call +65 6123 4567.
1 Anvil Road, Singapore 049315
Wile Coyote, Chief Executive Officer"""
NEWS = "Big Rival Holdings bought anvils from Acme. Ask editor@news.test."
PAGES = (
    Excerpt(url="http://acme.test/", kind="home", text=HOME),
    Excerpt(url="http://news.test/1", text=NEWS),
)


def judged(field, value, evidence):
    return ClaimChecker(PAGES, domain="acme.test").check_claim(field, value, evidence)


@pytest.mark.parametrize(
    ("field", "value", "evidence", "kept"),
    [
        ("name", "Acme", "Acme makes anvils", "Acme"),
        ("name", "ACME", "acme   MAKES anvils", "ACME"),
        ("legal_name", "ACME PTE. LTD.", "ACME PTE. LTD. (UEN 197401143C)", "ACME PTE. LTD."),
        ("uen", "UEN 197401143C", "(UEN 197401143C)", "197401143C"),
        ("founded", "1974", "founded in 1974", "1974"),
        ("employees", "50-100", "has 50 to 100 employees", "50-100"),
        ("email", "Hello@Acme.test", "Write to hello@acme.test", "hello@acme.test"),
        ("website", "www.acme.test", "https://www.acme.test/about", "http://www.acme.test/"),
        (
            "social",
            "https://www.linkedin.com/company/acme",
            "https://www.linkedin.com/company/acme.",
            "https://www.linkedin.com/company/acme",
        ),
        ("phone", "6123 4567", "Call +65 6123 4567.", "+6561234567"),
        ("postal_code", "049315", "1 Anvil Road, Singapore 049315", "049315"),
        ("address", "1 Anvil Road", "1 Anvil Road, Singapore 049315", "1 Anvil Road"),
        ("country", "Singapore", "steel tools in Singapore", "SG"),
        ("industry", "anvils and steel tools", "makes anvils and steel tools", None),
        (
            "person",
            "Wile Coyote|Chief Executive Officer",
            "Wile Coyote, Chief Executive Officer",
            "Wile Coyote | Chief Executive Officer",
        ),
        ("person", "Wile Coyote", "Wile Coyote, Chief Executive Officer", "Wile Coyote"),
    ],
)
def test_what_a_page_says_is_kept_with_the_page_that_says_it(field, value, evidence, kept):
    found = judged(field, value, evidence)
    assert isinstance(found, Fact), found
    assert found.value == (kept or value)
    assert (found.source, found.method) == ("http://acme.test/", Method.LLM)


@pytest.mark.parametrize(
    ("field", "value", "evidence"),
    [
        ("budget", "unlimited", "Acme makes anvils"),
        ("name", "", "Acme makes anvils"),
        ("name", "Acme", ""),
        ("name", "Acme", "Acme makes hammers"),
        ("name", "Rival", "Acme makes anvils"),
        ("name", "Acm", "Acme makes anvils"),
        ("name", "Acme" * 100, "Acme makes anvils"),
        ("name", "<b>Acme</b>", "Acme makes anvils"),
        ("name", "see https://www.acme.test/about", "see https://www.acme.test/about"),
        ("uen", "197401143D", "(UEN 197401143C)"),
        ("uen", "00192200M", "(UEN 197401143C)"),
        ("founded", "1900", "founded in 1974"),
        ("founded", "197", "founded in 1974"),
        ("employees", "999999", "has 50 to 100 employees"),
        ("employees", "50-999", "has 50 to 100 employees"),
        ("email", "ceo@attacker.test", "Write to hello@acme.test"),
        ("email", "hello@acme.test.attacker.test", "Write to hello@acme.test"),
        ("website", "http://attacker.test/", "https://www.acme.test/about"),
        ("website", "http://news.test/", "Ask editor@news.test."),
        ("website", "http://127.0.0.1/", "https://www.acme.test/about"),
        ("website", "javascript:alert(1)", "https://www.acme.test/about"),
        ("social", "http://attacker.test/profile", "https://www.acme.test/about"),
        ("phone", "+6562223333", "Call +65 6123 4567."),
        ("phone", "123", "Call +65 6123 4567."),
        ("postal_code", "999999", "Singapore 049315"),
        ("person", "Mallory | CEO", "Wile Coyote, Chief Executive Officer"),
        ("person", "Wile Coyote | Janitor", "Wile Coyote, Chief Executive Officer"),
        ("person", "| Chief Executive Officer", "Wile Coyote, Chief Executive Officer"),
        ("technology", "DROP TABLE companies; --", "Acme makes anvils"),
        ("about", "Acme makes anvils " * 50, "Acme makes anvils"),
        ("name", "Acme", "anvils from Acme. Ask editor@news.test.\nAcme makes anvils"),
    ],
)
def test_what_no_page_says_is_dropped_with_a_reason(field, value, evidence):
    dropped = judged(field, value, evidence)
    assert isinstance(dropped, RejectedFact), dropped
    assert dropped.reason


def test_an_address_elsewhere_and_another_site_are_believed_less():
    own = judged("email", "hello@acme.test", "Write to hello@acme.test").confidence
    strange = judged("email", "boss@gmail.com", "boss@gmail.com or see").confidence
    told = judged("email", "editor@news.test", "Ask editor@news.test.").confidence
    assert own > strange > told


def test_one_field_never_fills_a_record():
    emails = [f"box{n}@acme.test" for n in range(100)]
    judge = ClaimChecker([Excerpt(url="http://a.test/", text="\n".join(emails))], domain="")
    kept = [judge.check_claim("email", email, email) for email in emails]
    assert sum(isinstance(each, Fact) for each in kept) == MAX_PER_FIELD


spans = st.integers(0, len(HOME)).flatmap(
    lambda at: st.integers(at, min(len(HOME), at + 120)).map(lambda end: HOME[at:end])
)
anything = st.text(max_size=60) | spans


@given(st.sampled_from(FactField), anything, anything)
def test_no_claim_makes_it_raise_and_no_kept_value_is_foreign_to_the_pages(field, value, evidence):
    found = judged(field.value, value, evidence)
    if isinstance(found, Fact):
        words = normalize_text(f"{HOME} {NEWS}")
        assert normalize_text(found.evidence) in words
        for part in found.value.replace(" | ", "|").split("|"):
            digits = "".join(letter for letter in part if letter.isdigit())
            said = normalize_text(part) in words or (digits and digits[-4:] in words)
            assert said or found.field in (FactField.COUNTRY, FactField.WEBSITE, FactField.SOCIAL)
