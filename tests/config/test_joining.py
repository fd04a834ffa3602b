"""Tenants of the store and tenants of settings are one list."""

import pytest

from stoker.base.types import TenantId
from stoker.settings.load import add_stored_tenants, load_settings
from stoker.tenants import model


def settings(tmp_path, text="", **flags):
    file = tmp_path / "stoker.toml"
    file.write_text(text)
    return load_settings(file=file, env_file=None, environment={}, flags=flags)


def known(*ids, **how):
    return [model.Tenant(id=TenantId(each), **how) for each in ids]


def ids(settings):
    return [tenant.id for tenant in settings.tenants]


def test_without_tenants_in_the_store_settings_stay_as_they_are(tmp_path):
    own = settings(tmp_path, "[tenants.acme]\n")
    assert add_stored_tenants(own, []) is own


def test_a_tenant_of_the_store_is_beside_those_of_settings_in_id_order(tmp_path):
    both = add_stored_tenants(settings(tmp_path, "[tenants.bolt]\n"), known("acme", "crane"))
    assert ids(both) == ["acme", "bolt", "crane"]
    assert both.list_active_tenants() == ("acme", "bolt", "crane")


def test_tenants_called_by_numbers_are_in_the_order_of_the_numbers(tmp_path):
    stored = known("10", "9", "acme", "100", "2b")
    both = add_stored_tenants(settings(tmp_path, "[tenants.1]\n"), stored)
    assert ids(both) == ["1", "9", "10", "100", "2b", "acme"]
    assert both.list_active_tenants() == ("1", "9", "10", "100", "2b", "acme")


def test_the_tenant_nobody_named_makes_way(tmp_path):
    assert ids(add_stored_tenants(settings(tmp_path), known("acme"))) == ["acme"]
    assert add_stored_tenants(settings(tmp_path), known("acme")).find_default_tenant() == "acme"


@pytest.mark.parametrize(
    "text", ['[tenants.default]\nname = "Ours"\n', 'tenancy.default_tenant_id = "default"\n']
)
def test_a_default_tenant_that_somebody_named_stays(tmp_path, text):
    assert ids(add_stored_tenants(settings(tmp_path, text), known("acme"))) == ["acme", "default"]


def test_what_a_tenant_sets_for_itself_still_counts(tmp_path):
    text = '[tenants.acme]\nname = "Acme Ltd"\n[tenants.acme.caps]\ntavily_queries = 3\n'
    both = add_stored_tenants(settings(tmp_path, text), known("acme", name="acme of the store"))
    assert both.for_tenant(TenantId("acme")).get_value("caps.tavily_queries") == 3
    assert both.get_tenant(TenantId("acme")).name == "Acme Ltd"


@pytest.mark.parametrize(("enabled", "active"), [(True, False), (False, True), (False, False)])
def test_switched_off_in_either_is_switched_off(tmp_path, enabled, active):
    text = f"[tenants.acme]\nenabled = {str(enabled).lower()}\n"
    both = add_stored_tenants(settings(tmp_path, text), known("acme", active=active))
    assert both.list_active_tenants() == ()


def test_a_tenant_of_the_store_rehearses_with_a_crm_of_its_own(tmp_path):
    own = settings(tmp_path, **{"sandbox.address": "127.0.0.1:8099"})
    odoo = add_stored_tenants(own, known("acme")).for_tenant(TenantId("acme"))
    assert (odoo.get_value("odoo.database"), odoo.get_value("odoo.url")) == (
        "acme",
        "http://odoo.test",
    )
    assert "sandbox" in odoo.get_value("keys.odoo").reveal()
    assert ids(add_stored_tenants(own, known("acme"))) == ["acme"]
