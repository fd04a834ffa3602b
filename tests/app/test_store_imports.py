"""A process that writes has imported every store before it starts."""

import subprocess
import sys

PROGRAM = """
import asyncio, sys
from pathlib import Path
from stoker.app import open_app, read_settings
from stoker.context import STORE_MODULES

async def main():
    settings = read_settings(directory=Path(sys.argv[1]), config=None, flags={}, environment={})
    async with open_app(settings, only_to_read=sys.argv[2] == "read"):
        print(sum(name in sys.modules for name in STORE_MODULES) == len(STORE_MODULES))

asyncio.run(main())
"""


def imports_all(tmp_path, mode):
    command = [sys.executable, "-c", PROGRAM, str(tmp_path), mode]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_a_process_that_writes_imports_every_store_and_one_that_reads_does_not(tmp_path):
    assert (imports_all(tmp_path, "write"), imports_all(tmp_path, "read")) == ("True", "False")
