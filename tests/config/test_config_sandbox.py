"""Where vendors are, whose keys go there, and what the sandbox stands in for."""

import json
from pathlib import Path

import pytest

from stoker.base.errors import ConfigError
from stoker.base.types import TenantId
from stoker.config.fields import Secret
from stoker.settings.load import add_stored_tenants, load_settings
from stoker.settings.sandbox import SANDBOX_FILES, SANDBOX_KEYS, SANDBOX_URLS
from stoker.tenants.model import Tenant as Known

ACME, BOLT = TenantId("acme"), TenantId("bolt")
BOX = '[sandbox]\naddress = "127.0.0.1:8099"\n'
REAL = "tvly-prod-5c1d77"


@pytest.fixture
def read(tmp_path):
    def read(toml="", **environment):
        (tmp_path / "stoker.toml").write_text(toml)
        file = tmp_path / "stoker.toml"
        return load_settings(file=file, env_file=None, environment=environment, flags={})

    return read


def origins(settings):
    return {line.key: line.origin for line in settings.list_shown()}


@pytest.mark.parametrize(
    "url",
    [
        "http://api.tavily.com",
        "https://127.0.0.1",
        "https://10.0.0.1/x",
        "https://localhost",
        "https://api.tavily.com:8443",
        "https://me:key@api.tavily.com",
        "https://api.tavily.com/?key=1",
        "https://api.tavily.com/#x",
        "http://test",
        "http://x.test.example",
        "ftp://api.tavily.com",
        "",
    ],
)
def test_a_key_goes_nowhere_but_to_an_encrypted_public_address_or_a_make_believe_one(read, url):
    with pytest.raises(ConfigError, match=r"stoker\.toml:2: tavily\.base_url is "):
        read(f"[tavily]\nbase_url = {json.dumps(url)}\n")


def test_an_address_is_written_one_way(read):
    settings = read('[tavily]\nbase_url = "HTTPS://API.Tavily.com:443/"\n')
    assert settings.get_value("tavily.base_url") == "https://api.tavily.com"


@pytest.mark.parametrize(
    "address",
    ["10.0.0.1:8099", "0.0.0.0:8099", "localhost:8099", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:٣"],
)
def test_a_sandbox_that_is_not_on_loopback_is_refused(read, address):
    with pytest.raises(ConfigError, match=r"sandbox\.address is .*allowed: a loopback address"):
        read(f'[sandbox]\naddress = "{address}"\n')


@pytest.mark.parametrize("address", ["127.0.0.1:8099", "[::1]:8099"])
def test_a_sandbox_is_on_loopback(read, address):
    assert read(f'[sandbox]\naddress = "{address}"\n').sandbox.address == address


def test_an_empty_address_switches_the_sandbox_off(read):
    settings = read('[sandbox]\naddress = ""\n')
    assert settings.sandbox.address is None
    assert settings.get_value("tavily.base_url") == "https://api.tavily.com"


def test_without_a_sandbox_a_make_believe_address_is_refused_wherever_it_stands(read):
    with pytest.raises(ConfigError) as caught:
        read(
            '[tavily]\nbase_url = "http://tavily.test"\n'
            '[tenants.acme]\nodoo.url = "http://odoo.test"\n'
        )
    first, second = str(caught.value).split("\n")
    assert first.startswith("stoker.toml:2: tavily.base_url is a fake address")
    assert second.startswith("stoker.toml:4: tenants.acme.odoo.url is a fake address")


def test_with_a_sandbox_everything_nobody_set_is_make_believe_and_says_so(read):
    settings = read(BOX + "[tenants.acme]\n[tenants.bolt]\n")
    shown = origins(settings)
    for key, url in SANDBOX_URLS.items():
        assert (settings.get_value(key), shown[key]) == (url, "sandbox.address")
    stand_ins = {key: vendor.sandbox_key for key, vendor in SANDBOX_KEYS.items()}
    assert stand_ins["keys.datagov"] is None  # it is not needed there
    for key, stand_in in stand_ins.items():
        if stand_in is not None:
            assert (settings.get_value(key), shown[key]) == (Secret(stand_in), "sandbox.address")
    for tenant in (ACME, BOLT):
        own = settings.for_tenant(tenant)
        assert (own.get_value("odoo.url"), own.get_value("odoo.database")) == (
            "http://odoo.test",
            tenant,
        )
        assert own.get_value("keys.odoo") == Secret(f"odoo-{tenant}-sandbox")
        assert shown[f"tenants.{tenant}.keys.odoo"] == "sandbox.address"


def test_a_rehearsal_remembers_in_files_of_its_own_and_says_so(read):
    real, rehearsed = read(), read(BOX)
    shown = origins(rehearsed)
    for key, file in SANDBOX_FILES.items():
        assert real.get_value(key) != file
        assert (rehearsed.get_value(key), shown[key]) == (file, "sandbox.address")


@pytest.mark.parametrize("key", sorted(SANDBOX_FILES))
def test_a_file_that_somebody_named_is_the_one_that_is_used(read, key):
    for named in ("mine", str(read().get_value(key))):  # also the one it would have been without
        settings = read(BOX + f"[{key.split('.')[0]}]\n{key.split('.')[1]} = {json.dumps(named)}\n")
        assert settings.get_value(key) == Path(named)
        assert origins(settings)[key] == "stoker.toml:4"
        others = {other: settings.get_value(other) for other in SANDBOX_FILES if other != key}
        assert others == {other: SANDBOX_FILES[other] for other in others}


def test_a_rehearsal_s_files_are_where_the_real_ones_would_be(read, tmp_path):
    settings = read(BOX).with_directory(tmp_path)
    assert settings.storage.sqlite_path == tmp_path / SANDBOX_FILES["storage.sqlite_path"]
    again = add_stored_tenants(
        settings, [Known(id=ACME, name="Acme")]
    )  # as when the store was opened
    assert again.storage == settings.storage


def test_a_key_that_may_be_real_never_goes_to_a_make_believe_address(read):
    settings = read(
        BOX + f'[tenants.acme]\nkeys.tavily = "{REAL}-own"\nkeys.odoo = "{REAL}-odoo"\n',
        TAVILY_API_KEY=REAL,
        ODOO_API_KEY=REAL,
        DATA_GOV_SG_API_KEY=REAL,
    )
    assert settings.get_value("keys.datagov") is None
    own = settings.for_tenant(ACME)
    assert (
        settings.get_value("keys.tavily") == own.get_value("keys.tavily") == Secret("tvly-sandbox")
    )
    assert own.get_value("keys.odoo") == Secret("odoo-acme-sandbox")
    shown = origins(settings)
    assert shown["keys.tavily"] == "sandbox.address, not environment TAVILY_API_KEY"
    assert shown["tenants.acme.keys.tavily"] == "sandbox.address, not stoker.toml:4"
    assert shown["tenants.acme.keys.odoo"] == "sandbox.address, not stoker.toml:5"


def test_a_key_with_the_word_sandbox_in_it_is_rehearsed_with(read):
    settings = read(BOX, TAVILY_API_KEY="tvly-sandbox-wrong")
    assert settings.get_value("keys.tavily") == Secret("tvly-sandbox-wrong")
    assert origins(settings)["keys.tavily"] == "environment TAVILY_API_KEY"


def test_an_address_somebody_set_stays_and_gets_no_make_believe_key(read):
    settings = read(BOX + '[lusha]\nbase_url = "https://lusha.example.com"\n', TAVILY_API_KEY=REAL)
    assert settings.get_value("lusha.base_url") == "https://lusha.example.com"
    assert settings.get_value("keys.lusha") is None
    own = read(
        BOX + '[tenants.acme]\nodoo.url = "https://acme.example.com"\n', ODOO_API_KEY=REAL
    ).for_tenant(ACME)
    assert (own.get_value("odoo.url"), own.get_value("keys.odoo")) == (
        "https://acme.example.com",
        Secret(REAL),
    )
    assert own.get_value("odoo.database") is None


def test_a_tenant_has_keys_of_its_own_and_no_others(read):
    settings = read(
        '[tenants.acme]\nkeys.tavily = "tvly-acme-1"\n[tenants.bolt]\n', TAVILY_API_KEY=REAL
    )
    assert settings.for_tenant(ACME).get_value("keys.tavily") == Secret("tvly-acme-1")
    assert settings.for_tenant(BOLT).get_value("keys.tavily") == Secret(REAL)
    assert "tvly-acme-1" not in settings.for_tenant(BOLT).list_secret_values()


def test_a_tenant_s_own_key_is_as_secret_as_any_other(read):
    settings = read('[tenants.acme]\nkeys.tavily = "tvly-acme-1"\n')
    assert "tvly-acme-1" in settings.list_secret_values()
    told = json.dumps(settings.snapshot()) + repr(settings.list_shown()) + repr(settings)
    assert "tvly-acme-1" not in told
    assert settings.snapshot()["tenants"]["acme"]["overrides"] == {"keys.tavily": "set"}
