"""Hostile files cost little to read: counted calls and bytes held, over files from a grammar.

`python -m proof hostile_pages` measures time, stalls and memory over 11,500 of them.
"""

import asyncio
import random
import sys
import tracemalloc
from contextlib import suppress

import pytest
from email_validator import EmailNotValidError, validate_email

from fuzz.bad_files import bad_pages, bad_robots, bad_sitemaps
from fuzz.cost import MIB, READERS, watch_loop
from fuzz.hostile import GRAMMARS, Gene, Recipe, build_file, change_recipe, draw_recipe
from stoker.base.errors import StokerError
from stoker.crawl.page import parse_page

MAX_CALLS = 5_000_000  # of functions; they take about a second
MAX_HELD = 32 * MIB
FILES = 8  # of each kind by chance, and as many near them

# What reading took longest, or most memory, before it was bounded.
ONCE_WORST = (
    Recipe("page", (Gene("mail lists", 1_950, 80),), 1),
    Recipe("page", (Gene("mail links", 10_000, 80),), 2),
    Recipe("page", (Gene("addresses", 30_000, 50), Gene("phones", 60_000, 1)), 3),
    Recipe("page", (Gene("hosts", 10_000, 60),), 4),
    Recipe("page", (Gene("organizations", 2_000, 60),), 5),
    Recipe("page", (Gene("letters", 500, 60),), 6, charset="wrong"),
    Recipe("sitemap", (Gene("hosts", 20_000, 60),), 7),
    Recipe("robots", (Gene("patterns", 40_000, 200),), 8, max_bytes=512_000),
    Recipe("feed", (Gene("attributes", 400_000, 1),), 9, max_bytes=5_000_000),
    Recipe("feed", (Gene("names", 190_000, 1),), 11, max_bytes=5_000_000),
    Recipe("http", (Gene("small chunks", 400_000, 0),), 10, max_bytes=3_000_000),
)


@pytest.fixture(autouse=True, scope="module")
def warm():
    """Load what is loaded once, so that it is not counted with a file."""
    READERS["page"][0](b'<a href="mailto:e@\xc3\xa9.test">x</a> +65 6123 4567')


def count_calls(work):
    """Return how many functions were called, ours and the interpreter's."""
    calls = 0

    def note(frame, event, _):
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        with suppress(StokerError):
            work()
    finally:
        sys.setprofile(None)
    return calls


def draw_recipes(kind):
    rng = random.Random(kind)
    drawn = [draw_recipe(rng, kind, max_bytes=60_000) for _ in range(FILES)]
    return [*drawn, *(change_recipe(rng, recipe) for recipe in drawn)]


def find_costly(recipe):
    """Return what about reading a file is above its bound."""
    data, costly = build_file(recipe), []
    for read in READERS[recipe.kind]:
        if (calls := count_calls(lambda read=read: read(data))) > MAX_CALLS:
            costly.append(f"{calls:,} calls: {recipe}")
        tracemalloc.start()
        with suppress(StokerError):
            read(data)
        held = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        if held > MAX_HELD:
            costly.append(f"{held / MIB:.0f} MiB: {recipe}")
    return costly


@pytest.mark.parametrize("kind", GRAMMARS)
def test_no_file_of_the_grammar_takes_more_than_its_share(kind):
    assert [each for recipe in draw_recipes(kind) for each in find_costly(recipe)] == []


@pytest.mark.parametrize("recipe", ONCE_WORST, ids=lambda recipe: recipe.genes[0].name)
def test_what_once_was_worst_is_bounded(recipe):
    assert find_costly(recipe) == []


BAD_FILES = {"page": bad_pages, "robots": bad_robots, "sitemap": bad_sitemaps}


@pytest.mark.parametrize("kind", BAD_FILES)
def test_no_file_made_by_hand_takes_more_than_its_share(kind):
    costly, found = [], []
    for name, body in BAD_FILES[kind]():
        calls = count_calls(lambda body=body: found.append(str(READERS[kind][0](body[:2_000_000]))))
        if calls > MAX_CALLS:
            costly.append(f"{calls:,} calls: {name}")
    assert costly == []
    assert len(found) >= 20
    assert "root:" not in "".join(found)  # no entity led out of its file


def test_a_reader_that_validates_every_address_is_caught():
    def read_naively(data):
        for link in parse_page(data).links:
            for address in link.href.removeprefix("mailto:").split(","):
                with suppress(EmailNotValidError):
                    validate_email(address, check_deliverability=False)

    data = build_file(Recipe("page", (Gene("mail lists", 20, 80),), 1))
    ours = count_calls(lambda: READERS["page"][0](data))
    assert count_calls(lambda: read_naively(data)) > 5 * ours


def test_a_recipe_can_be_read_back_and_gives_the_same_bytes():
    for kind in GRAMMARS:
        recipe = draw_recipe(random.Random(kind), kind)
        assert Recipe.parse(str(recipe)) == recipe
        assert build_file(Recipe.parse(str(recipe))) == build_file(recipe)


async def test_a_loop_that_stands_still_is_seen():
    async def stand():
        sum(range(3_000_000))

    async def wait():
        for _ in range(30):
            await asyncio.sleep(0)

    assert await watch_loop(stand) > 3 * await watch_loop(wait)
