"""Tenants, whom they look for and where their results go, as a person says it."""

import pytest

from night_desk import Desk, small_internet
from stoker.app import read_settings
from stoker.cli.main import main
from stoker.cli.options import filter_active


@pytest.fixture(scope="module")
def box():
    with small_internet() as running:
        yield running


@pytest.fixture
def stoker(tmp_path, capsys, box):
    return Desk(tmp_path, capsys, box)


def test_a_tenant_that_is_added_is_there_for_every_command(stoker):
    code, out, _ = stoker("tenant", "add", "acme", "--name", "Acme Ltd")
    assert (code, "acme is added" in out) == (0, True)

    [acme] = stoker.told("tenant", "list")[1]
    assert (acme["tenant"], acme["name"], acme["rule"]) == ("acme", "Acme Ltd", "default")
    assert set(acme["onboarded"]) == {"added", "rule"}
    assert stoker("upkeep", "--tenant", "acme")[0] == 0
    assert stoker("runs", "list", "--tenant", "acme")[0] == 0
    assert [run["tenant"] for run in stoker.told("runs", "list")[1]] == ["acme"]


def test_adding_a_tenant_twice_keeps_its_rule(stoker):
    stoker("tenant", "add", "acme")
    stoker("icp", "set", "--tenant", "acme", "--industry", "finance")

    assert "already exists" in stoker("tenant", "add", "acme")[1]
    assert stoker.told("icp", "show")[1]["industries"] == ["64", "65", "66"]


def test_a_tenant_that_is_switched_off_has_nothing_done_and_loses_nothing(stoker):
    stoker("tenant", "add", "acme")
    stoker("tenant", "add", "bolt")
    assert stoker("tenant", "disable", "acme")[1] == "acme is disabled\n"
    assert stoker("tenant", "disable", "acme")[1] == "acme was already disabled\n"

    code, ran = stoker.told("upkeep")
    assert (code, [run["tenant"] for run in ran]) == (0, ["bolt"])
    told = stoker.told("tenant", "show", "acme")[1]
    assert (told["active"], told["nights"], told["rule"]) == (False, False, "default")
    assert "not active" in told["lacks"][0]

    assert stoker("tenant", "enable", "acme")[0] == 0
    assert stoker.told("tenant", "show", "acme")[1]["nights"]


WORK = [
    ["nightly"],
    ["nightly", "--only", "export"],
    ["pulls", "run"],
    ["pulls", "plan"],
    ["discover"],
    ["heat", "sweep"],
    ["upkeep"],
    ["schedule", "run", "--once"],
    ["crawl", "http://one.test"],
    ["touches", "plan"],
    ["touches", "run"],
]
LOOKING = [
    ["nightly", "--dry-run"],
    ["nightly", "--plan"],
    ["quote"],
    ["pulls", "plan", "--dry-run"],
    ["runs", "list"],
    ["leads"],
    ["caps", "list"],
]


def says(stoker, setting):
    """Put a setting before everything else in the settings file."""
    file = stoker.directory / "stoker.toml"
    file.write_text(f"{setting}\n{file.read_text()}[tenants.acme]\n[tenants.zeta]\n")


@pytest.mark.parametrize("words", WORK)
def test_nothing_is_run_for_a_tenant_that_is_switched_off(stoker, box, words):
    stoker("tenant", "add", "acme")
    stoker("tenant", "add", "zeta")
    stoker("tenant", "disable", "zeta")
    asked = box.meter.requests
    code, out, err = stoker(*words, "--tenant", "zeta")

    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert "zeta is switched off" in err
    assert err.endswith("stoker tenants enable zeta\n")
    assert stoker.told("runs", "list", "--tenant", "zeta")[1] == []
    assert box.meter.requests == asked


@pytest.mark.parametrize("words", LOOKING)
def test_one_may_look_at_a_tenant_that_is_switched_off(stoker, words):
    stoker.set_up("acme", "zeta")
    stoker("tenant", "disable", "zeta")
    assert stoker(*words, "--tenant", "zeta")[0] == 0


@pytest.mark.parametrize(
    ("named", "name", "told"),
    [
        ('["zeta"]', "tenant_exclude", "is in scheduling.tenant_exclude"),
        ('["acme"]', "tenant_include", "is not in scheduling.tenant_include"),
    ],
)
@pytest.mark.parametrize("words", WORK)
def test_nothing_is_run_for_a_tenant_that_settings_leave_out_though_it_is_named(
    stoker, box, words, named, name, told
):
    says(stoker, f"scheduling.{name} = {named}")
    asked = box.meter.requests
    code, out, err = stoker(*words, "--tenant", "zeta")

    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert f"zeta {told}" in err
    assert "stoker.toml:1" in err
    assert stoker.told("runs", "list", "--tenant", "zeta")[1] == []
    assert box.meter.requests == asked


@pytest.mark.parametrize("words", LOOKING)
def test_one_may_look_at_a_tenant_that_settings_leave_out(stoker, words):
    stoker.set_up("acme", "zeta")
    says(stoker, 'scheduling.tenant_exclude = ["zeta"]')
    assert stoker(*words, "--tenant", "zeta")[0] == 0


def test_excluded_is_excluded_included_or_not(stoker):
    says(stoker, 'scheduling.tenant_include = ["zeta"]\nscheduling.tenant_exclude = ["zeta"]')
    assert "zeta is in scheduling.tenant_exclude" in stoker("upkeep", "--tenant", "zeta")[2]


@pytest.mark.parametrize(
    ("left_out", "on"),
    [("", ("acme", "zeta")), ("zeta", ("acme",)), ("acme,zeta", ("acme", "zeta"))],
)
def test_of_those_named_the_ones_that_settings_leave_out_are_not_still_on(tmp_path, left_out, on):
    (tmp_path / "stoker.toml").write_text("[tenants.acme]\n[tenants.zeta]\n")
    said = {"SCHED_TENANT_EXCLUDE": left_out} if left_out else {}
    own = read_settings(directory=tmp_path, config=None, flags={}, environment=said)
    assert filter_active(own, ("acme", "zeta")) == on


def test_a_tenant_switched_off_by_settings_is_switched_on_there(stoker):
    stoker("tenant", "add", "zeta")
    file = stoker.directory / "stoker.toml"
    file.write_text(file.read_text() + "[tenants.acme]\n[tenants.zeta]\nenabled = false\n")

    assert "stoker tenants enable zeta" in stoker("upkeep", "--tenant", "zeta")[2]
    code, _, err = stoker("tenant", "enable", "zeta")
    assert (code, "zeta is disabled by" in err, "stoker.toml" in err) == (2, True, True)


def test_a_new_tenant_starts_from_technology(stoker):
    stoker("tenant", "add", "acme")
    rule = stoker.told("icp", "show")[1]
    assert rule["industries"] == ["58", "61", "62", "63"]
    assert (rule["employees"], rule["years"]) == ([2, 100], [2000, 2025])


def test_a_rule_is_said_in_words_letters_or_codes_and_the_rest_stays(stoker):
    stoker("tenant", "add", "acme")
    stoker("icp", "set", "--employees", "5-50")
    wanted = ("--industry", "banking", "--industry", "L", "--industry", "62011")
    code, rule = stoker.told("icp", "set", *wanted)

    assert code == 0
    assert rule["industries"] == ["64", "68", "62011"]
    assert rule["employees"] == [5, 50]


def test_results_go_where_a_person_says(stoker):
    stoker("tenant", "add", "acme")
    code, crm = stoker.told("crm", "connect")
    assert (code, crm["ok"], crm["url"], crm["database"]) == (0, True, "http://odoo.test", "acme")

    _, out, _ = stoker("crm", "disconnect")
    assert "switched off" in out
    assert not stoker.told("tenant", "show", "acme")[1]["nights"]
    assert stoker("crm", "connect")[0] == 0
    assert stoker.told("crm", "show")[1]["active"]


def test_a_crm_that_does_not_take_the_key_is_told_and_kept(stoker):
    stoker("tenant", "add", "acme")
    code, crm = stoker.told("crm", "connect", "--database", "somebody-elses")
    assert (code, crm["ok"], crm["database"]) == (1, False, "somebody-elses")
    assert "sandbox" not in crm["detail"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["tenant", "add", "No Such"], "is not a tenant id"),
        (["tenant", "show", "nobody"], "there is no tenant 'nobody'"),
        (["tenant", "disable", "nobody"], "there is no tenant 'nobody'"),
        (["icp", "set", "--years", "2000"], "give two numbers"),
        (["icp", "set", "--years", "2025-2000"], "the earlier first"),
        (["icp", "set", "--employees", "100-2"], "the smaller number first"),
        (["icp", "set", "--industry", "bakin"], "is not a known industry"),
        (["icp", "set", "--industry", "any", "--industry", "62"], "remove the others"),
        (["icp", "show"], "set it with: stoker icp set"),
        (["crm", "connect", "--url", "http://example.com"], "odoo.allow_private = true"),
        (["crm", "connect", "--url", "http://10.0.0.5:8069"], "odoo.allow_private = true"),
        (["crm", "connect", "--url", "https://localhost"], "odoo.allow_private = true"),
        (["crm", "connect", "--url", "ftp://odoo.lan"], "it needs http:// or https://"),
        (["crm", "connect", "--expires", "soon"], "is not a time"),
        (["crm", "disconnect"], "connected by settings alone"),
    ],
)
def test_what_cannot_be_meant_is_answered_in_one_line(stoker, words, complaint):
    code, out, err = stoker(*words)
    assert (code, out) == (2, "")
    assert complaint in err
    assert len(err.splitlines()) == 1


def test_doctor_speaks_of_the_tenants_the_store_knows(stoker):
    stoker("tenant", "add", "acme")
    code, told = stoker.told("doctor")
    assert (code, list(told["caps"])) == (0, ["acme"])
    assert "connectors, acme" in {check["what"] for check in told["checks"]}


def test_the_users_of_a_tenant_are_added_changed_listed_and_removed(stoker):
    stoker("tenants", "add", "acme")
    stoker("tenants", "add", "bolt")
    acme = ("--tenant", "acme")
    code, told = stoker.told("tenants", "users", "add", "mei@acme.example", *acme)
    assert (code, told["new"], told["role"]) == (0, True, "viewer")
    promoted = ("mei@acme.example", "--name", "Mei", "--role", "admin")
    assert stoker.told("tenants", "users", "add", *promoted, *acme)[1]["new"] is False

    mei = {"tenant": "acme", "user": "mei@acme.example", "name": "Mei", "role": "admin"}
    assert stoker.told("tenants", "users", "list", *acme)[1] == [mei]
    assert "mei@acme.example  Mei   admin" in stoker("tenants", "users", "list", *acme)[1]
    assert stoker.told("tenants", "users", "list", "--tenant", "bolt")[1] == []

    code, _, err = stoker("tenants", "users", "remove", "mei@acme.example", "--tenant", "bolt")
    assert (code, "bolt has no user 'mei@acme.example'" in err) == (2, True)
    assert stoker("tenants", "users", "remove", "mei@acme.example", *acme)[0] == 0
    assert stoker.told("tenants", "users", "list", *acme)[1] == []


def test_a_tenant_of_the_store_may_be_included_or_excluded(stoker, monkeypatch):
    stoker("tenants", "add", "acme")
    stoker("tenants", "add", "bolt")
    monkeypatch.setenv("SCHED_TENANT_INCLUDE", "bolt,9")
    code, ran = stoker.told("upkeep")
    assert (code, [run["tenant"] for run in ran]) == (0, ["bolt"])
    monkeypatch.delenv("SCHED_TENANT_INCLUDE")
    monkeypatch.setenv("SCHED_TENANT_EXCLUDE", "bolt")
    assert [run["tenant"] for run in stoker.told("upkeep")[1]] == ["acme"]


def test_an_id_that_no_tenant_has_is_reported_and_stops_nothing(stoker, monkeypatch, capsys):
    stoker("tenants", "add", "acme")
    monkeypatch.setenv("SCHED_TENANT_INCLUDE", "acme,nix")
    code = main(["-C", str(stoker.directory), "tenants", "list"])
    said = capsys.readouterr()
    assert (code, "acme" in said.out) == (0, True)
    assert "scheduling.tenant_include names nix, and no tenant has this id" in said.err
    checks = {each["what"]: each for each in stoker.told("doctor")[1]["checks"]}
    assert checks["scheduling.tenant_include"]["level"] == "warning"
