"""A person at a terminal whose vendors are all make-believe."""

import json

from running_box import RunningBox
from stoker.cli.main import main

ANYBODY = ("--industry", "any", "--employees", "0-9999", "--years", "1900-2026")
REGISTER = ("registry", "import", "http://sandbox.test/registry.csv", "--release", "2025-12-31")
_FAST = "".join(
    f"[{name}]\ncalls = 100000\nburst = 1000\n"
    for name in ("tavily", "openai", "lusha", "zerobounce", "odoo")
)
_SETTINGS = f"""
sandbox.address = "{{address}}"
crawl.gap_s = 0.001
crawl.timeout_s = 1
{_FAST}
"""


def small_internet():
    """A make-believe internet that is quick about verifying addresses."""
    return RunningBox(companies=60, dials={"zerobounce.calls": 1_000_000})


class Desk:
    """Runs commands in a directory of its own."""

    def __init__(self, directory, capsys, box):
        self.directory, self._capsys = directory, capsys
        (directory / "stoker.toml").write_text(_SETTINGS.format(address=box.box.address))

    def __call__(self, *words):
        """Run a command; return its exit code, output and complaints."""
        code = main(["-C", str(self.directory), "--log-level", "error", *words])
        said = self._capsys.readouterr()
        return code, said.out, said.err

    def told(self, *words):
        """Run a command for programs; return its exit code and what it says."""
        code, out, err = self(*words, "--json")
        return code, json.loads(out or json.dumps(err))

    def set_up(self, *tenants):
        """Add tenants that look for anybody, and read the register."""
        for tenant in tenants:
            assert self("tenant", "add", tenant)[0] == 0
            assert self("icp", "set", "--tenant", tenant, *ANYBODY)[0] == 0
        assert self(*REGISTER)[0] == 0
        return self
