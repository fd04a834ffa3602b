"""Rules kept as text say what all of them, understood at once, say."""

import tracemalloc
from datetime import timedelta

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from protego import Protego

from stoker.crawl.robots import MAX_ROBOTS_BYTES, MAX_RULES, RobotsRules, parse_robots

HOST = "http://acme.test"
PLAIN = ["/", "//", "a", "b", "A", ".", "~", "=", "index.html", "é"]
ODD = [
    "%2F",
    "%61",
    "%41",
    "%C3%A9",
    "%",
    "*",
    "$",
    "?",
    ";",
    "&",
    ":",
    "+",
    "http://",
    "x y",
    "\t",
]
pieces = st.sampled_from(PLAIN + ODD)
values = st.lists(pieces, min_size=1, max_size=6).map("".join)
paths = st.one_of(values, values.map("/{}".format), values.map("/a{}".format))
rules = st.tuples(st.sampled_from(["Allow", "disallow", "Dissallow", "ALLOW"]), paths)


def lines_of(rows):
    return [f"{word}: {value.strip()}" for word, value in rows if value.strip()]


@settings(max_examples=400)
@given(st.lists(rules, max_size=8), paths)
@example([("Allow", "/a/index.html"), ("disallow", "/")], "/a/")
@example([("disallow", "/%61")], "/a")
@example([("disallow", "/a")], "/%61b")
@example([("disallow", "http://")], "/http://x")
def test_an_address_is_judged_as_by_all_rules_at_once(rows, path):
    lines = lines_of(rows)
    url = f"{HOST}{path if path.startswith('/') else f'/{path}'}"
    whole = Protego.parse("\n".join(["User-agent: *", *lines]))

    assert RobotsRules("\n".join(lines)).allows(url) == whole.can_fetch(url, "*")


@pytest.mark.parametrize("url", [HOST, f"{HOST}?x", f"{HOST}#x", f"{HOST}/#/a", f"{HOST}/a#b"])
def test_what_is_no_path_concerns_no_rule_of_a_path(url):
    assert RobotsRules("Disallow: /b").allows(url)
    assert not RobotsRules("Disallow: /").allows(url)


def test_the_longest_wait_counts_whatever_else_the_rules_say():
    text = "Disallow: /crawl-delay\nCrawl-delay: 3\nRequest-rate: 1/20\nAllow: /request-rate: 9"

    assert RobotsRules(text).get_delay() == timedelta(seconds=20)


def test_a_site_with_thousands_of_rules_takes_the_memory_of_their_words():
    lines = [f"Disallow: /a/{number}" for number in range(MAX_RULES - 1)]
    body = "\n".join(["User-agent: *", *lines]).encode()
    assert len(body) < MAX_ROBOTS_BYTES
    tracemalloc.start()
    try:
        robots = parse_robots(body, product="stoker")
        answers = [robots.allows(f"{HOST}/{path}") for path in ("", "a/7", "a/x", "b")]
        kept, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert answers == [True, False, True, True]
    assert kept < 2 * len(body)
    assert most < 12 * len(body)
