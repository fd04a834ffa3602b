"""A rehearsal: a sandbox in another process, and commands that know of it by settings only."""

import json
import subprocess
import sys

import pytest

from stoker.cli.main import main
from stoker.cli.output import Exit

REAL = "tvly-prod-canary-5c1d77"
SETTINGS = """
[sandbox]
address = "{address}"
[crawl]
gap_s = 0.01
[datagov]
calls = 1000
[datagov_downloads]
calls = 1000
[tenants.merlion]
[tenants.hudson]
"""


@pytest.fixture(scope="module")
def address():
    """The address of a sandbox in another process."""
    command = [sys.executable, "-m", "stoker.cli.main", "sandbox", "serve"]
    with subprocess.Popen(
        [*command, "--port", "0", "--companies", "300", "--json"],
        stdout=subprocess.PIPE,
        text=True,
    ) as serving:
        yield json.loads(serving.stdout.readline())["address"]
        serving.terminate()
        last = serving.stdout.read().splitlines()[-1]
    assert serving.returncode == 0
    assert json.loads(last)["said"] == "ended"


@pytest.fixture
def stoker(address, tmp_path, capsys):
    (tmp_path / "stoker.toml").write_text(SETTINGS.format(address=address))
    (tmp_path / ".env").write_text(f"TAVILY_API_KEY={REAL}\n")

    def stoker(*arguments):
        code = main(["-C", str(tmp_path), *arguments, "--json"])
        said = capsys.readouterr()
        assert REAL not in said.out + said.err
        return code, json.loads(said.out)

    stoker.home = tmp_path
    return stoker


def company(address):
    import http.client

    host, port = address.split(":")
    line = http.client.HTTPConnection(host, int(port), timeout=60)
    try:
        for index in range(300):
            line.request("GET", f"/company?index={index}", headers={"Host": "sandbox.test"})
            found = json.loads(line.getresponse().read())
            if found["trouble"] == "fine":
                return found
    finally:
        line.close()
    raise AssertionError("no company here has a site without trouble")


def test_everything_can_be_rehearsed_with_one_setting_and_no_key(stoker, address):
    code, shown = stoker("config", "show")
    assert code == Exit.OK
    assert shown["tavily.base_url"] == {"value": "http://tavily.test", "origin": "sandbox.address"}
    assert shown["keys.tavily"]["origin"] == "sandbox.address, not .env:1"
    assert shown["tenants.hudson.odoo.database"]["value"] == "hudson"

    for tenant in ("merlion", "hudson"):
        code, told = stoker("connector", "test", "--tenant", tenant)
        assert (code, [each for each in told["connectors"] if not each["ok"]]) == (Exit.OK, [])

    site = company(address)["domain"]
    code, visit = stoker("crawl", site, "--tenant", "merlion")
    assert (code, visit["outcome"]) == (Exit.OK, "read")
    assert visit["findings"]
    code, again = stoker("crawl", site, "--tenant", "merlion")
    assert (code, again["outcome"]) == (Exit.OK, "unchanged")

    code, told = stoker("registry", "import", "--download", "--letters", "A,B")
    assert code == Exit.OK
    assert sum(each["new"] for each in told["files"]) > 10
    code, told = stoker("registry", "import", "--download", "--letters", "A,B")
    assert (code, {each["before"] for each in told["files"]}) == (Exit.OK, {True})

    _, used = stoker("caps", "list", "--tenant", "merlion")
    looks = {each["cap"]: each["used"] for each in used["caps"]}["tenant/*/pull_units/day"]
    assert looks == 2
    code, _ = stoker("ledger", "verify", "--tenant", "merlion")
    assert code == Exit.OK
    files = {each.name for each in stoker.home.iterdir()}
    assert "stoker-sandbox.db" in files
    assert not any(name.startswith("stoker.db") for name in files)  # nothing real was touched
    assert shown["storage.sqlite_path"]["origin"] == "sandbox.address"

    code, told = stoker("doctor")
    assert code == Exit.OK
    assert any(check["what"] == "SANDBOX" for check in told["checks"])
