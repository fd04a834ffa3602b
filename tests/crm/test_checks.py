"""`stoker crm connect` and `stoker connectors test odoo` ask the very place that is connected."""

import json
from datetime import timedelta

import pytest

from kit.crm_office import PROTOCOLS
from running_box import RunningBox
from stoker.cli.main import main
from stoker.crm.checks import check_crm, to_health
from stoker.crm.odoo import Odoo
from stoker.http.client import HttpClient

LOGINS = {"ours": "stoker", "own-x": "raj", "contacts-x": "tom", "internal-x": "ida"}


@pytest.fixture
def box():
    with RunningBox(companies=1) as running:
        yield running


async def check(box, key="ours", protocol="", database="acme", **how):
    http = HttpClient(user_agent="Stoker test", sandbox=box.box.address)
    crm = Odoo(
        http,
        url="http://odoo.test",
        database=database,
        key=f"odoo-{database}-{key}",
        login=LOGINS[key],
        protocol=protocol,
        deadline=timedelta(seconds=60),
    )
    try:
        return await check_crm(crm, **how)
    finally:
        await http.close()


def wrong(checks):
    return {each.what: each.detail for each in checks if not each.ok}


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("key", ["ours", "own-x"])
async def test_a_stock_installation_and_a_salesmans_key_are_fine(box, protocol, key):
    checks = await check(box, key, protocol)

    assert wrong(checks) == {}
    assert [each.what for each in checks] == [
        "connection",
        "companies and contacts",
        "fields of companies and contacts",
        "leads",
        "fields of leads",
        "who sees leads",
    ]
    assert to_health(checks).ok


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_right_that_is_missing_is_named_for_each_kind_of_record(box, protocol):
    internal = wrong(await check(box, "internal-x", protocol))
    assert internal.keys() == {"companies and contacts", "leads"}
    assert (
        "create and change them; give it the right 'Contact / Creation'"
        in (internal["companies and contacts"])
    )
    contacts = wrong(await check(box, "contacts-x", protocol))
    assert contacts.keys() == {"leads"}
    assert "Sales / User" in contacts["leads"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_crm_without_its_app_is_told_from_one_without_the_right(box, protocol):
    box.faults.set_value("odoo.apps", "none")
    checks = wrong(await check(box, protocol=protocol))

    assert checks.keys() == {"leads"}
    assert "not installed" in checks["leads"]


async def test_a_required_field_that_stays_empty_is_named_with_its_label(box):
    box.faults.set_value("odoo.required", "crm.lead.x_channel")
    checks = wrong(await check(box))

    assert checks.keys() == {"fields of leads"}
    assert "Channel (x_channel)" in checks["fields of leads"]


@pytest.mark.parametrize(
    ("option", "lead_type", "seen"),
    [(0, "auto", True), (0, "opportunity", True), (0, "lead", False), (1, "lead", True)],
)
async def test_leads_that_no_menu_shows_are_told(box, option, lead_type, seen):
    box.faults.set_value("odoo.leads", option)
    checks = wrong(await check(box, lead_type=lead_type))

    assert ("who sees leads" not in checks) is seen


async def test_a_place_that_is_not_there_is_one_line(box):
    checks = await check(box, database="missing", protocol="json2")
    assert [(each.what, each.ok) for each in checks] == [("connection", False)]


def test_what_is_connected_is_what_is_tested(box, tmp_path, capsys):
    (tmp_path / "stoker.toml").write_text(
        f'sandbox.address = "{box.box.address}"\nstorage.sqlite_path = "{tmp_path}/s.db"\n'
        "[tenants.acme]\n"
        'keys.odoo = "odoo-elsewhere-contacts-sandbox"\n'
    )

    def stoker(*words):
        code = main(["-C", str(tmp_path), *words])
        return code, capsys.readouterr().out

    code, told = stoker("crm", "connect", "--database", "elsewhere", "--json")
    assert (code, json.loads(told)["ok"]) == (1, False)
    assert [each["what"] for each in json.loads(told)["checks"] if not each["ok"]] == ["leads"]
    code, told = stoker("connectors", "test", "odoo", "--json")
    [odoo] = json.loads(told)["connectors"]
    assert (code, odoo["on"], odoo["ok"]) == (1, True, False)
    assert "leads: our user may not create and change them" in odoo["detail"]
    code, shown = stoker("crm", "connect", "--database", "elsewhere")
    assert "companies and contacts" in shown
    assert "WRONG" in shown
