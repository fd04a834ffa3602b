import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser

from kit.counted_work import counted_calls
from stoker.accounts.facts import FactField, Method, find_best_fact
from stoker.crawl.contacts import MAX_ATTEMPTS
from stoker.crawl.page import parse_page
from stoker.crawl.structured_data import (
    MAX_FACTS,
    MAX_ORGANIZATIONS,
    ValueParsers,
    find_organization_facts,
    find_structured_facts,
)

URL = "http://acme.test/"
ACME = {
    "@context": "https://schema.org",
    "@type": "Organization",
    "name": "Acme",
    "legalName": "ACME PTE. LTD.",
    "url": "https://www.acme.test/home",
    "email": "mailto:hello@acme.test",
    "telephone": "+65 6123 4567",
    "taxID": "197401143C",
    "foundingDate": "1974-05-01",
    "numberOfEmployees": {"@type": "QuantitativeValue", "minValue": 50, "maxValue": 100},
    "description": "Anvils for every need.",
    "address": {
        "@type": "PostalAddress",
        "streetAddress": "1 Anvil Road",
        "postalCode": "049315",
        "addressCountry": {"@type": "Country", "name": "Singapore"},
    },
    "sameAs": ["https://www.linkedin.com/company/acme/", "https://acme.example/"],
    "founder": {"@type": "Person", "name": "Wile Coyote"},
    "employee": [{"@type": "Person", "name": "Road Runner", "jobTitle": "Head of Sales"}],
    "parentOrganization": {"@type": "Organization", "name": "Mother Holdings"},
    "review": {"@type": "Review", "author": {"@type": "Organization", "name": "Critic"}},
}
WANTED = {
    FactField.NAME: {"Acme"},
    FactField.LEGAL_NAME: {"ACME PTE. LTD."},
    FactField.WEBSITE: {"https://www.acme.test/"},
    FactField.EMAIL: {"hello@acme.test"},
    FactField.PHONE: {"+6561234567"},
    FactField.UEN: {"197401143C"},
    FactField.FOUNDED: {"1974"},
    FactField.EMPLOYEES: {"50-100"},
    FactField.ABOUT: {"Anvils for every need."},
    FactField.ADDRESS: {"1 Anvil Road"},
    FactField.POSTAL_CODE: {"049315"},
    FactField.COUNTRY: {"SG"},
    FactField.SOCIAL: {"https://www.linkedin.com/company/acme"},
    FactField.PERSON: {"Wile Coyote | Founder", "Road Runner | Head of Sales"},
}


def found(markup, url=URL):
    tree = LexborHTMLParser(parse_page(markup.encode()).markup)
    return find_structured_facts(tree, url=url)


def organization_facts(data):
    how = {"url": URL, "how": Method.JSON_LD, "parsers": ValueParsers(URL)}
    return list(find_organization_facts(data, **how))


def linked(data):
    said = data if isinstance(data, str) else json.dumps(data)
    return f'<html><head><script type="application/ld+json">{said}</script></head></html>'


def by_field(findings):
    return {
        field: {each.value for each in findings if each.field is field}
        for field in FactField
        if any(each.field is field for each in findings)
    }


@pytest.mark.parametrize(
    "shape",
    [
        ACME,
        [ACME],
        {"@context": "https://schema.org", "@graph": [{"@type": "WebSite"}, ACME]},
        {"@type": "WebPage", "publisher": ACME},
        {"@graph": [[{"@type": "WebPage", "about": {"mainEntity": ACME}}]]},
        {**ACME, "@type": ["https://schema.org/Corporation", "Thing"]},
        {**ACME, "@type": "schema:LocalBusiness"},
    ],
)
def test_a_company_is_found_in_every_shape_of_linked_data(shape):
    findings = found(linked(shape))
    assert by_field(findings) == WANTED
    assert {each.method for each in findings} == {Method.JSON_LD}
    assert all(each.source == URL and each.evidence for each in findings)


def test_parts_given_by_reference_are_followed():
    data = {
        "@graph": [
            {"@id": "#place", "@type": "PostalAddress", "postalCode": "049315"},
            {"@type": "Organization", "name": "Acme", "address": {"@id": "#place"}},
        ]
    }
    assert find_best_fact(found(linked(data)), FactField.POSTAL_CODE).value == "049315"


@pytest.mark.parametrize(
    "broken",
    [
        '{"@type":"Organization","name":"Acme",}',
        '<![CDATA[{"@type":"Organization","name":"Acme"}]]>',
        '{"@type":"Organization","name":"Acme","description":"two\nlines"}',
        '{"@type":"Organization","name":"Acme"};',
        '{"@type":"Organization","name":"Acme","name":"Acme"}',
        '{"@type":"Organization","name":"Acme","n":NaN}',
    ],
)
def test_broken_linked_data_is_read_as_far_as_it_goes(broken):
    assert find_best_fact(found(linked(broken)), FactField.NAME).value == "Acme"


@pytest.mark.parametrize(
    "hopeless", ["", "{", "nonsense", "[" * 100_000, '{"a":' * 5_000, "9" * 100_000, '"\\ud800"']
)
def test_hopeless_linked_data_says_nothing(hopeless):
    assert found(linked(hopeless)) == []


def test_a_page_about_another_company_is_no_first_hand_word():
    other = {"@type": "Organization", "name": "Customer", "url": "https://customer.test/"}
    findings = found(linked([other, {"@type": "Organization", "name": "Acme"}]))
    assert find_best_fact(findings, FactField.NAME).value == "Acme"


def test_microdata_says_the_same_as_linked_data():
    findings = found(
        '<div itemscope itemtype="https://schema.org/Organization">'
        '<span itemprop="name">Acme</span><meta itemprop="legalName" content="ACME PTE. LTD.">'
        '<a itemprop="email" href="mailto:hello@acme.test">write</a>'
        '<span itemprop="telephone">6123 4567</span>'
        '<div itemprop="address" itemscope itemtype="https://schema.org/PostalAddress">'
        '<span itemprop="streetAddress">1 Anvil Road</span>'
        '<span itemprop="postalCode">049315</span></div>'
        '<div itemprop="employee" itemscope itemtype="https://schema.org/Person">'
        '<b itemprop="name">Road Runner</b><i itemprop="jobTitle">Head of Sales</i></div></div>'
    )
    assert by_field(findings) == {
        FactField.NAME: {"Acme"},
        FactField.LEGAL_NAME: {"ACME PTE. LTD."},
        FactField.EMAIL: {"hello@acme.test"},
        FactField.PHONE: {"+6561234567"},
        FactField.ADDRESS: {"1 Anvil Road"},
        FactField.POSTAL_CODE: {"049315"},
        FactField.PERSON: {"Road Runner | Head of Sales"},
    }
    assert {each.method for each in findings} == {Method.MICRODATA}


def test_meta_tags_say_a_name_and_what_it_is_about():
    findings = found(
        '<meta property="og:site_name" content="Acme"><meta name="description" content="Anvils.">'
        '<meta name="description" content="Not this one."><meta name="keywords" content="x">'
    )
    assert by_field(findings) == {FactField.NAME: {"Acme"}, FactField.ABOUT: {"Anvils."}}


def test_markup_nested_very_deep_ends():
    deep = "<div itemscope><p itemprop=name>" * 3_000
    assert found(deep) == []


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from([*ACME, "@id", "@graph", "@value", "name", "minValue", "value"]),
            inner,
            max_size=6,
        )
    ),
    max_leaves=25,
)


@pytest.mark.parametrize(
    ("name", "work"), [("email", "parse_email"), ("telephone", "parse_phone"), ("url", "parse_url")]
)
def test_so_many_values_are_tried_in_all_blocks_together(name, work):
    blocks = [
        [{"@type": "Organization", name: [f"{n}{m}é" for m in range(20)]} for n in range(60)]
        for _ in range(5)
    ]
    with counted_calls() as calls:
        found("".join(map(linked, blocks)))
    assert 0 < calls[work] <= MAX_ATTEMPTS


def test_facts_of_so_many_organizations_are_taken():
    everyone = [{"@type": "Organization", "name": f"{n}"} for n in range(500)]
    assert len(found(linked(everyone))) == MAX_ORGANIZATIONS
    many = [{"@type": "Organization", "name": [f"{n}" for n in range(20)]}] * 500
    assert len(found(linked(many) * 3)) == MAX_FACTS


@given(json_values)
def test_no_linked_data_makes_reading_raise(data):
    for said in (data, {"@type": "Organization", "address": data, "numberOfEmployees": data}):
        for each in organization_facts(said):
            assert each.value
            assert 0 < each.confidence <= 1
            each.value.encode()


@given(json_values.map(lambda data: {**ACME, "name": data, "employee": data, "email": data}))
def test_one_odd_property_does_not_spoil_the_others(data):
    findings = organization_facts(data)
    assert find_best_fact(findings, FactField.UEN).value == "197401143C"
