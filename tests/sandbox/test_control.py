import pytest

from running_box import RunningBox

HERE = "sandbox.test"


@pytest.fixture
def box():
    with RunningBox(seed=2, companies=50) as running:
        yield running


def test_requests_are_shown_with_what_they_got(box):
    site = box.world.get_company(0).domain
    box.ask(site, "GET", "/robots.txt?a=1")
    box.ask(HERE, "GET", "/counts")

    log = box.ask(HERE, "GET", "/log").parse_json()
    assert [(each["host"], each["target"]) for each in log] == [
        (site, "/robots.txt?a=1"),
        (HERE, "/counts"),
    ]
    assert len(box.ask(HERE, "GET", f"/log?host={site}").parse_json()) == 1
    assert [
        each["number"] for each in box.ask(HERE, "GET", "/log?after=1&limit=1").parse_json()
    ] == [2]
    assert box.ask(HERE, "GET", "/counts").parse_json()["by_host"]["sites"] == 1


def test_dials_are_turned_and_shown(box):
    turned = box.ask(HERE, "POST", "/dials", {"sites.fault.error": 1, "tavily.latency": "50ms"})

    assert turned.parse_json()["sites"] == {"fault.error": "1"}
    assert box.ask(HERE, "GET", "/dials").parse_json() == turned.parse_json()
    assert box.ask(box.world.get_company(0).domain, "GET", "/robots.txt").status == 500


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"null", b'{"a.b": 1}', b'{"a.calls": []}', b"{" * 100_000, b"\xff"]
)
def test_orders_that_make_no_sense_are_refused(box, body):
    assert box.ask(HERE, "POST", "/dials", body=body).status == 400


@pytest.mark.parametrize("rows", ["-4", "abc", "51", "1e3", "9" * 30])
def test_rows_there_are_not_are_refused(box, rows):
    told = box.ask(HERE, "GET", f"/registry.csv?rows={rows}")
    assert told.status == 400
    assert "from 0 to 50" in told.parse_json()["error"]


def test_a_company_is_found_in_three_ways(box):
    company = box.world.get_company(7)
    for by in (f"index={company.index}", f"uen={company.uen}", f"domain={company.domain}"):
        assert box.ask(HERE, "GET", f"/company?{by}").parse_json()["uen"] == company.uen
    for by in ("index=50", "uen=nobody", "domain=nobody.test", ""):
        assert box.ask(HERE, "GET", f"/company?{by}").status == 404


def test_charges_are_shown_by_vendor_and_by_key(box):
    box.meter.charge("tavily", 2, key="a")

    told = box.ask(HERE, "GET", "/charges").parse_json()
    assert told["total"] == {"tavily": {"credits": 2}}
    assert list(told["by_key"]["tavily"].values()) == [{"credits": 2}]


def test_what_is_not_there_is_not_found(box):
    assert box.ask(HERE, "GET", "/nothing").status == 404
    assert box.ask(HERE, "DELETE", "/log").status == 404
