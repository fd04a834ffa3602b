"""What stores and commands need to know about touches costs no heavy import."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "module",
    ["stoker.touches.model", "stoker.touches.queue", "stoker.simulation.commands"],
)
def test_columns_are_loaded_only_by_those_who_plan(module):
    said = f"import sys, {module}; print('numpy' in sys.modules)"
    answer = subprocess.run(
        [sys.executable, "-c", said], capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == "False"
