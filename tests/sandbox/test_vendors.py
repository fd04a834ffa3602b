"""What all vendors of the make-believe internet have in common: bills, faults, sturdiness."""

import http.client
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from running_box import RunningBox
from stoker.sandbox.http import Request
from stoker.sandbox.server import FAULT_TARGETS, VENDOR_HANDLERS

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}},
    "required": ["name"],
    "additionalProperties": False,
}
HEADERS = {
    "tavily": {"authorization": "Bearer tvly-key-secret"},
    "openai": {"authorization": "Bearer sk-key-secret"},
    "lusha": {"api_key": "lusha-key-secret"},
    "zerobounce": {},
    "odoo": {"authorization": "Bearer odoo-db-secret", "x-odoo-database": "db"},
}
CALLS = {  # one call of each that is charged, and the unit it is charged in
    "tavily": ("/search", {"query": "x"}, "credits"),
    "openai": ("/v1/responses", {"model": "gpt-6-luna", "input": "x"}, "tokens"),
    "lusha": (
        "/v3/contacts/prospecting",
        {"filters": {"companies": {"include": {"domains": ["x.test"]}}}},
        "credits",
    ),
    "zerobounce": (
        "/v2/validatebatch",
        {"api_key": "zb-key-secret", "email_batch": [{"email_address": "a@example.org"}]},
        "credits",
    ),
    "odoo": (
        "/json/2/res.partner/load",
        {"fields": ["id", "name"], "data": [["t.a", "A"]]},
        "writes",
    ),
}
PATHS = {
    "tavily": ["/search", "/extract"],
    "openai": ["/v1/responses"],
    "lusha": ["/v3/contacts/enrich", "/v3/contacts/prospecting"],
    "zerobounce": ["/v2/validatebatch"],
    "odoo": [
        f"/json/2/{model}/{method}"
        for model in ("res.partner", "crm.lead", "mail.activity")
        for method in ("load", "search", "search_read", "read", "write", "create", "fields_get")
    ],
}
vendors = pytest.mark.parametrize("vendor", CALLS)


def buy(box, vendor):
    path, body, _ = CALLS[vendor]
    return box.ask(f"{vendor}.test", "POST", path, body, headers=HEADERS[vendor])


def bill(box, vendor):
    return box.box.charges.get(vendor, {}).get(CALLS[vendor][2], 0)


@vendors
def test_a_call_whose_answer_is_lost_is_on_the_bill_and_one_that_was_refused_is_not(vendor):
    with RunningBox(companies=5, dials={f"{vendor}.fault.close": 1}) as box:
        with pytest.raises((OSError, http.client.HTTPException)):
            buy(box, vendor)
        after = bill(box, vendor)
        box.faults.set_value(f"{vendor}.fault.close", 0)
        box.faults.set_value(f"{vendor}.fault.error", 1)

        assert buy(box, vendor).status == 500
        assert bill(box, vendor) == after > 0


@vendors
def test_keys_stay_out_of_the_log_and_of_the_bills(vendor):
    with RunningBox(companies=5) as box:
        buy(box, vendor)
        shown = json.dumps([box.meter.charges_by_key, [str(seen) for seen in box.box.log]])

        assert "secret" not in shown


@pytest.mark.parametrize("host", VENDOR_HANDLERS)
def test_the_same_world_gives_the_same_answers(host):
    def told():
        with RunningBox(companies=50, seed=11) as box:
            company = box.world.get_company(0)
            answers = [
                box.ask(host, "GET", path).body
                for path in (
                    "/",
                    f"/{company.slug}/jobs.rss",
                    f"/v1/boards/{company.slug}/jobs",
                    f"/company/{company.uen}",
                    "/v2/public/api/collections/2/metadata",
                )
            ]
            vendor = host.removesuffix(".test")
            if vendor in CALLS:
                answers.append(buy(box, vendor).body)
            return answers

    assert told() == told()


def test_a_directory_page_says_what_the_register_says():
    with RunningBox(companies=5) as box:
        company = box.world.get_company(1)
        page = box.ask("directory.test", "GET", f"/company/{company.uen}")

        assert company.uen in page.body.decode()
        assert box.ask("directory.test", "GET", "/company/nobody").status == 404
        assert box.ask("news.test", "GET", "/anything").status == 200


TAKES = {  # what a call of this name may carry; the fuzz fills it with anything
    "/search": "query search_depth max_results include_domains exclude_domains",
    "/extract": "urls extract_depth",
    "/v1/responses": "model input instructions text max_output_tokens reasoning temperature",
    "/v2/validatebatch": "api_key email_batch timeout",
    "contacts/enrich": "ids reveal",
    "prospecting": "pagination filters",
    "load": "fields data context",
    "/search_read": "domain fields offset limit order context",
    "partner/search": "domain offset limit order context",
    "read": "ids fields",
    "write": "ids vals",
    "create": "vals_list",
    "fields_get": "allfields attributes",
}
WORDS = (
    "id name fields domain query contacts companies include domains reveal email_address emails "
    "vals text format schema type json_schema strict properties required items anyOf $defs page "
    "size jobTitles existingDataPoints effort clientReferenceId companyDomain phones gpt-6-luna "
    "object array string t.a zb-key-1 & | ! = in ilike parent_id tag_ids res_id active_test"
)
words = st.sampled_from(WORDS.split(" "))
junk = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | words
    | st.text(st.characters(), max_size=5)
    | st.sampled_from(["\ud800", "a\0b", "\u202e", "=1+1", "x" * 5000, "\r\n"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=6),
    max_leaves=15,
)


def calls_of(path):
    takes = next((names for end, names in TAKES.items() if path.endswith(end)), "query")
    named = st.fixed_dictionaries({}, optional=dict.fromkeys(takes.split(" "), junk))
    return st.tuples(st.just(path), named | junk)


@vendors
def test_no_body_makes_a_vendor_stumble(vendor):
    with RunningBox(companies=5, dials={"zerobounce.calls": -1}) as box:

        @settings(deadline=None, max_examples=150, suppress_health_check=list(HealthCheck))
        @given(st.sampled_from(PATHS[vendor]).flatmap(calls_of))
        def check(call):
            path, body = call
            told = box.box.answer(
                Request(
                    method="POST",
                    host=f"{vendor}.test",
                    path=path,
                    headers=HEADERS[vendor],
                    body=json.dumps(body).encode(),
                )
            )
            assert told.status != 599, told.body

        check()


@pytest.mark.parametrize("host", VENDOR_HANDLERS)
def test_every_vendor_can_be_dialled_by_its_name(host):
    name = {"news.test": "directory"}.get(host, host.removesuffix(".test").replace("-", "_"))
    assert name in FAULT_TARGETS

    with RunningBox(companies=5, dials={f"{name}.status": 418}) as box:
        assert box.ask(host, "GET", "/").status == 418


@pytest.mark.parametrize(
    ("vendor", "status", "keys"),
    [
        *[("lusha", status, {"statusCode", "message"}) for status in (402, 412, 429, 451, 499)],
        *[("tavily", status, {"detail"}) for status in (403, 429, 432, 433, 500)],
        *[("zerobounce", status, {"error"}) for status in (403, 429, 500)],
    ],
)
def test_a_dialled_status_is_worded_as_the_vendor_does_and_costs_nothing(vendor, status, keys):
    with RunningBox(companies=1, dials={f"{vendor}.status": status}) as box:
        told = buy(box, vendor)

        assert (told.status, set(told.parse_json())) == (status, keys)
        assert "retry-after" not in told.headers
        assert bill(box, vendor) == 0


def test_there_are_no_dials_of_a_vendor_there_is_not():
    with RunningBox(companies=5) as box:
        for name in ("tavilly", "data-gov", "sandbox"):
            told = box.ask("sandbox.test", "POST", "/dials", {f"{name}.latency": "1s"})
            assert (told.status, f"no dials of '{name}'" in told.parse_json()["error"]) == (
                400,
                True,
            )
        assert box.ask("sandbox.test", "GET", "/dials").parse_json() == {}
