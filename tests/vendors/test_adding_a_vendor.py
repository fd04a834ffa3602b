"""A new vendor is three files: its client, its section and row in the table, its sandbox.

They are written into a copy of the package, and everything that lists vendors is asked there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import stoker

SECTION = '''
@dataclass(frozen=True, kw_only=True)
class AcmeSettings(VendorSettings):
    """How Acme is called."""

    base_url: str = setting(BASE_URL, "https://api.acme.example", _URL_TEXT)
    calls: int = setting(_CALLS, 7, _CALLS_TEXT)
    key: Secret | None = tenant_setting(
        SECRET, None, "Acme's key.", "ACME_API_KEY", key="keys.acme"
    )
    daily_calls: int = _cap("acme_checks", 33, "Acme checks a day.", "ACME_MAX_CHECKS")

'''

ROW = """
    Vendor(
        name="acme",
        client="stoker.vendors.acme:build_acme",
        sections={"acme": AcmeSettings},
        needs=("keys.acme",),
        is_paid=True,
        caps={"calls": "caps.acme_checks"},
        step=Step.CONTACTS,
        need=VendorNeed(connector="acme", calls=0.5, cost={"calls": 1}),
        addresses={"acme.base_url": "http://acme.test"},
        sandbox="stoker.sandbox.vendors.acme",
        key="keys.acme",
        sandbox_key="acme-sandbox",
    ),
"""

CLIENT = """
from datetime import timedelta

from stoker.http.api_client import VendorApi, check_health
from stoker.http.client import build_http_client
from stoker.vendors.table import AcmeSettings, get_key


class Acme:
    def __init__(self, api):
        self._api = api

    async def check(self):
        return await check_health(self._ask)

    async def _ask(self):
        return (await self._api.get("/hello")).data["says"]


def build_acme(tenant):
    api = VendorApi(
        tenant.process.get(build_http_client),
        name="acme",
        base_url=tenant.settings.get_vendor(AcmeSettings).base_url,
        headers={"x-key": get_key(tenant, "acme")},
        deadline=timedelta(seconds=5),
    )
    return Acme(api)
"""

SANDBOX = """
from stoker.sandbox.http import to_json_response


def build_acme_handler(world, dials, meter):
    return lambda request: to_json_response({"says": request.headers["x-key"]})


HOSTS = {"acme.test": build_acme_handler}
"""

FORECAST = """
import json, sys
from stoker.enrichment.forecast import list_vendor_needs
from stoker.base.types import Depth
from stoker.sandbox.server import HANDLERS, FAULT_TARGETS
needs = {need.connector: need.calls for need in list_vendor_needs(["acme"])[Depth.DEEP]}
print(json.dumps([needs, "acme.test" in HANDLERS, "acme" in FAULT_TARGETS]))
"""

BEFORE_SECTION = "\n@dataclass(frozen=True, slots=True, kw_only=True)\nclass VendorNeed:"
ROWS = "\n_ROWS = ("

Run = Callable[..., str]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Run Python in a copy of the package that has the vendor, and return what it prints."""
    home = tmp_path_factory.mktemp("vendor")
    package, real = home / "stoker", Path(stoker.__file__).parent
    changed = ("vendors/acme.py", "vendors/table.py", "sandbox/vendors/acme.py")
    _link(real, package, changed)
    table = (real / "vendors/table.py").read_text(encoding="utf-8")
    for mark, text in ((BEFORE_SECTION, SECTION + BEFORE_SECTION), (ROWS, ROWS + ROW)):
        assert table.count(mark) == 1
        table = table.replace(mark, text)
    for name, content in zip(changed, (CLIENT, table, SANDBOX), strict=True):
        (package / name).write_text(content, encoding="utf-8")

    def run(*arguments: str, **environment: str) -> str:
        found = subprocess.run(
            [sys.executable, *arguments],
            cwd=home,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(home), **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        assert found.returncode in (0, 1), found.stderr
        return found.stdout

    return run


def _link(real: Path, copy: Path, changed: Sequence[str]) -> None:
    """Link a tree, but make the directories of changed files, without those files."""
    copy.mkdir()
    own = {name.partition("/")[0] for name in changed if "/" in name}
    for each in real.iterdir():
        below = tuple(
            name.partition("/")[2] for name in changed if name.startswith(f"{each.name}/")
        )
        if each.name in own:
            _link(each, copy / each.name, below)
        elif each.name not in changed and each.name != "__pycache__":
            (copy / each.name).symlink_to(each)


def stoker_json(run: Run, *words: str, **environment: str) -> object:
    return json.loads(run("-m", "stoker", *words, "--json", **environment))


def test_its_settings_key_and_cap_are_read_and_shown(run: Run) -> None:
    shown = stoker_json(run, "config", "show", ACME_API_KEY="ak-12345678", ACME_MAX_CHECKS="5")

    assert shown["acme.calls"] == {"value": "7", "origin": "default"}
    assert shown["keys.acme"] == {"value": "[secret]", "origin": "environment ACME_API_KEY"}
    assert shown["caps.acme_checks"] == {"value": "5", "origin": "environment ACME_MAX_CHECKS"}


def test_it_has_a_cap_a_line_of_doctor_and_a_row_of_connectors(run: Run) -> None:
    caps = json.dumps(stoker_json(run, "caps", "list"))
    assert "tenant_connector/acme/calls/day" in caps
    checks = json.dumps(stoker_json(run, "doctor"))
    assert '"keys.acme"' in checks
    rows = {row["name"]: row for row in stoker_json(run, "connectors", "list")["connectors"]}
    assert rows["acme"]["because"] == "keys.acme (ACME_API_KEY) is not set"


def test_the_reference_and_the_first_settings_file_describe_it(run: Run) -> None:
    pages = run("-c", "from stoker.cli.reference import build_pages as b; print(*b().values())")
    assert "## acme" in pages
    assert "`ACME_MAX_CHECKS`" in pages
    first = run("-c", "from stoker.settings.commands import build_first_file as b; print(b())")
    assert "acme_checks = 3  # small on purpose" in first


def test_forecasts_and_the_sandbox_know_it(run: Run) -> None:
    assert json.loads(run("-c", FORECAST)) == [{"acme": 0.5}, True, True]


def test_in_the_sandbox_it_answers_and_gets_no_real_key(run: Run) -> None:
    program = (
        "import sys; from stoker.sandbox.commands_demo import serve_sandbox\n"
        "from stoker.cli.main import main\n"
        "with serve_sandbox() as address:\n"
        "    sys.argv = ['stoker', '--set', f'sandbox.address={address}', 'connectors', 'test',"
        " 'acme', '--json']\n"
        "    sys.exit(main())\n"
    )
    [row] = json.loads(run("-c", program, ACME_API_KEY="ak-a-real-key"))["connectors"]
    assert (row["ok"], row["detail"]) == (True, "acme-sandbox")
