"""What fault tests share: a place to work in, reasons to skip, and their counts told at the end."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from faults.disks import LoopDisk, why_no_disk, why_no_memory_disk
from faults.lab import Workers, why_no_strace
from faults.tally import Tally

Report = Callable[[str, Tally], Tally]


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Workers]:
    with Workers(tmp_path) as workers:
        yield workers


@pytest.fixture
def tracing(workers: Workers, tmp_path: Path) -> Workers:
    """Workers that can be traced."""
    if reason := why_no_strace(workers, tmp_path):
        pytest.skip(reason)
    return workers


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[LoopDisk]:
    """A disk whose power can be cut."""
    yield from _disk(tmp_path, "ext4")


@pytest.fixture(params=["ext4", "xfs"])
def any_disk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[LoopDisk]:
    """The same, of each kind in turn: file systems differ in what they lose."""
    yield from _disk(tmp_path, request.param)


def _disk(room: Path, kind: str) -> Iterator[LoopDisk]:
    if reason := why_no_disk(kind=kind):
        pytest.skip(reason)
    with LoopDisk(room, kind=kind) as disk:
        yield disk


@pytest.fixture
def small_disks() -> None:
    """Asks for leave to mount disks in memory."""
    if reason := why_no_memory_disk():
        pytest.skip(reason)


@pytest.fixture
def report(request: pytest.FixtureRequest) -> Report:
    """Tell at the end of the session how often something was broken: a zero needs its n."""

    def told(what: str, tally: Tally) -> Tally:
        line = f"{what}: n={tally.n}, acknowledged {tally.acked}, broken {len(tally.broken)}"
        request.node.user_properties.append(("fault", line))
        return tally

    return told
