"""Memory that large buffers took is the machine's again once they are gone."""

import subprocess
import sys

import pytest

CHILD = """
import sys
from stoker.app import trim_memory

def resident():
    with open("/proc/self/statm") as told:
        return int(told.read().split()[1]) * 4096

if sys.argv[1] == "told":
    trim_memory()
bytearray(20_000_000)  # from now on, an untold library keeps whatever is smaller
before, small, large = resident(), [], []
for _ in range(50):
    large.append(bytearray(1_000_000))
    large[-1][::1000] = bytes(1000)
    small.append(bytearray(100_000))  # stays, and keeps the heap from shrinking
large.clear()
print(resident() - before)
"""


def grown(word):
    done = subprocess.run(
        [sys.executable, "-c", CHILD, word], capture_output=True, text=True, check=True
    )
    return int(done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="the C library of Linux only")
def test_a_heap_that_is_told_gives_back_what_it_was_lent():
    assert grown("told") < 10_000_000


@pytest.mark.skipif(sys.platform != "linux", reason="the C library of Linux only")
def test_one_that_is_not_told_is_caught():
    assert grown("untold") > 30_000_000
