"""Discovery on every store: the same files from all of them, and twice the same."""

from datetime import timedelta
from functools import partial

import pytest

from contracts.backends import ACME, BACKENDS
from stoker.accounts.model import Company, CompanyId
from stoker.backends.sqlite import MemoryBackend
from stoker.context import TenantContext
from stoker.discovery.files import PostingFiles
from stoker.discovery.run import DiscoveryRun
from stoker.discovery.service import read_source
from stoker.discovery.settings import DiscoverySettings
from stoker.discovery.sources import parse_source
from stoker.heat.settings import HeatSettings
from stoker.runs.leases import LeaseHolder
from stoker.runs.model import Manifest
from stoker.runs.service import Runner
from stoker.settings import Settings
from stoker.testing import EventRecorder, FakeClock

SOURCES = ("file:one.csv", "file:two.jsonl")
ONE = "title,url,company,posted_at\n" + "".join(
    f"Python Engineer {n} – ünï 🙂,https://jobs.example.com/{n},Acme Pte Ltd,2026-11-0{n % 9 + 1}\n"
    for n in range(1_100)
)
TWO = "".join(
    f'{{"title": "Cook {n}", "url": "https://jobs.example.com/{n}?utm_source=x"}}\n'
    for n in range(1_095, 1_105)
)

# Runs are files in the JSON backend, not rows.
pytestmark = pytest.mark.parametrize("backend", BACKENDS, indirect=True)


async def twice(backend, home, out):
    """Discover two days in a row; return what was written, and what was told of accounts."""
    clock, heard, store = FakeClock(), EventRecorder(), backend.tenant(ACME)
    companies = [Company(id=CompanyId("T1"), name="ACME PTE. LTD.")]
    await store.accounts.upsert_companies(companies, now=clock.now())
    tenant = TenantContext(process=None, settings=Settings(directory=home), store=store)
    work = DiscoveryRun(
        DiscoverySettings(sources=tuple(map(parse_source, SOURCES)), enrich=True),
        heat=HeatSettings(),
        read_source=partial(read_source, tenant),
        files=PostingFiles(out),
    )
    leases = LeaseHolder(owner="me", clock=clock, observer=heard, length=timedelta(seconds=30))
    counts = []
    for _ in range(2):
        run = await Runner(leases=leases).run_now(store, work, manifest=Manifest())
        counts.append(dict(run.manifest.counts))
        clock.advance(timedelta(days=1))
    files = {path.name: path.read_bytes() for path in sorted(out.iterdir())}
    return counts, files, await store.heat.find_heat(CompanyId("T1"))


async def test_every_store_gives_the_same_files_counts_and_heat(backend, tmp_path):
    (tmp_path / "one.csv").write_text(ONE)
    (tmp_path / "two.jsonl").write_text(TWO)
    expected = await twice(MemoryBackend(), tmp_path, tmp_path / "model")
    found = await twice(backend, tmp_path, tmp_path / "found")

    assert found == expected
    (first, second), files, _ = found
    assert (first["kept"], first["twins"], first["signals"]) == (1_105, 5, 1_100)
    assert (second["kept"], second["new"], second["signals"]) == (1_105, 0, 0)
    assert len(files) == 8
    for name in ("jobs_discovered", "jobs_enriched", "jobs_scored"):
        today, tomorrow = (
            data for each, data in files.items() if each.startswith(name) and "summary" not in each
        )
        assert today == tomorrow
