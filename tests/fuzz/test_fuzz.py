"""No bytes of a stranger break what reads them: what was found before, and mutations of it."""

import json
import random

import pytest

from fuzz.mutation import mutate
from fuzz.targets import CORPUS, TARGETS, Target, find_unstorable

MUTATIONS = 800  # of each target; `python -m proof fuzz` makes millions


def find_breaks(target, mutations):
    """Return how a target breaks, and on what, over its corpus and so many mutations of it."""
    rng, seeds = random.Random(target.name), target.list_seeds()
    tried = [*seeds]
    for _ in range(round(mutations * target.share)):
        tried.append(mutate(rng.choice(seeds), rng, others=seeds, words=target.words))
    return {broken: data[:200] for data in tried if (broken := target.find_break(data))}


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_no_bytes_of_a_stranger_break_a_reader(target):
    assert find_breaks(target, MUTATIONS) == {}


def test_readers_that_trust_what_they_get_are_caught():
    seeds = next(each for each in TARGETS if each.name == "json").list_seeds()
    seeds.append(b"[" * 3_000)
    naive = Target("naive", json.loads, lambda: seeds, words=(b"[", b'"\\ud800"', b"NaN"))
    breaks = " ".join(find_breaks(naive, 2_000))

    for what in ("RecursionError", "JSONDecodeError", "a text no store can keep", "that is none"):
        assert what in breaks


def test_every_seed_is_of_a_target_and_all_together_are_small():
    files = list(CORPUS.glob("*"))

    assert {file.stem for file in files} <= {target.name for target in TARGETS}
    assert sum(file.stat().st_size for file in files) < 300_000


def test_what_no_store_keeps_is_found_wherever_it_stands():
    assert find_unstorable([{"a": ("b", {"c": "\0"})}])
    assert find_unstorable({"a": float("nan")})
    assert not find_unstorable([{"a": ("b", 1.5, None)}])
