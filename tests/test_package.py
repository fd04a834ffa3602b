"""The source distribution has everything a clone has, and the base install does without extras."""

import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BUILT_IN = {"src", "pyproject.toml", "README.md", "LICENSE", "MANIFEST.in", ".gitignore"}


def list_top_level():
    if not shutil.which("git") or not (ROOT / ".git").exists():
        pytest.skip("this is no clone")
    found = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return {line.partition("/")[0] for line in found.stdout.splitlines()}


def test_the_source_distribution_has_every_folder_and_file():
    named = {
        word for line in (ROOT / "MANIFEST.in").read_text().splitlines() for word in line.split()
    }

    assert list_top_level() - BUILT_IN - named == set()


def test_what_benchmarks_compare_with_is_installed_for_them_alone():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    rivals = {line.partition(">")[0] for line in extras["bench"]} - {"stoker[dev]"}
    others = [line for name, lines in extras.items() if name != "bench" for line in lines]

    assert rivals == {"aiolimiter", "pyrate-limiter", "scrapy"}
    assert not [line for line in others + project["dependencies"] if line.startswith(tuple(rivals))]
