import tracemalloc
from datetime import timedelta

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from protego import Protego

from kit.counted_work import counted_calls
from stoker.crawl.robots import (
    MAX_PATH_LENGTH,
    MAX_PATTERNS,
    MAX_ROBOTS_BYTES,
    MAX_RULES,
    MAX_STARS,
    OPEN_ROBOTS,
    compile_rules,
    find_delay,
    get_product_token,
    parse_robots,
)

ALL = "http://acme.test"


def robots(text):
    body = text if isinstance(text, bytes) else text.encode()
    return parse_robots(body, product="stoker")


@pytest.mark.parametrize(
    ("text", "path", "allowed"),
    [
        ("", "/x", True),
        ("User-agent: *\nDisallow: /", "/x", False),
        ("User-agent: *\nDisallow:", "/x", True),
        ("User-agent: *\nDisallow: /private", "/private/x", False),
        ("User-agent: *\nDisallow: /private", "/public", True),
        ("User-agent: *\nDisallow: /\nAllow: /about", "/about", True),
        ("User-agent: *\nAllow: /a\nDisallow: /a/b", "/a/b", False),
        ("User-agent: *\nDisallow: /*.php$", "/x.php", False),
        ("User-agent: *\nDisallow: /*.php$", "/x.php?y", True),
        ("User-agent: *\nDisallow: /*?session=", "/x?session=1", False),
        ("User-agent: stoker\nDisallow: /", "/x", False),
        ("User-agent: STOKER/2.0\nDisallow: /", "/x", False),
        ("User-agent: other\nDisallow: /", "/x", True),
        ("User-agent: stokerbot\nDisallow: /", "/x", True),
        ("User-agent: stoker\nAllow: /\n\nUser-agent: *\nDisallow: /", "/x", True),
        ("User-agent: *\nDisallow: /\n\nUser-agent: stoker\nDisallow: /a", "/x", True),
        ("User-agent: stoker\nDisallow:\nUser-agent: *\nDisallow: /", "/x", True),
        ("User-agent: a\nUser-agent: stoker\nUser-agent: b\nDisallow: /", "/x", False),
        ("User-agent: a\nSitemap: http://x/\nUser-agent: stoker\nDisallow: /", "/x", False),
        ("User-agent: stoker\nDisallow: /a\nUser-agent: stoker\nDisallow: /b", "/b", False),
        ("User-agent: stoker\nDisallow: /a\nUser-agent: stoker\nDisallow: /b", "/a", False),
        ("user-agent:*\ndisallow:/x", "/x", False),
        ("USER-AGENT : *\nDISALLOW : /x", "/x", False),
        ("User-agent: *\r\nDisallow: /x\r\n", "/x", False),
        ("User-agent: *\rDisallow: /x\r", "/x", False),
        ("\ufeffUser-agent: *\nDisallow: /x", "/x", False),
        ("# note\nUser-agent: * # all\nDisallow: /x # no", "/x", False),
        ("User-agent: *\n\n\nDisallow: /x", "/x", False),
        ("User-agent: *\nDissallow: /x", "/x", False),
        ("Disallow: /x", "/x", True),
        ("User-agent: *\nNonsense: 1\nDisallow: /x", "/x", False),
        ("User-agent: *\nDisallow: /caf%C3%A9", "/caf%c3%a9", False),
        ("User-agent: *\nDisallow: x", "/x", True),
        ("\0User-agent: *\nDis\0allow: /x", "/x", False),
        ("<!doctype html><title>Hi</title><p>Disallow: nothing</p>", "/x", True),
        (b"\xff\xfe\xfa\x00garbage\x80\n" * 50, "/x", True),
        ("a" * 100_000, "/x", True),
        ("User-agent: *\nDisallow: /" + "a" * 5000, "/x", True),
        ("User-agent: *\nDisallow: /x" + "\nUser-agent: other\nDisallow: /" * 100, "/y", True),
        ("User-agent:\nDisallow: /", "/x", True),
        ("User-agent: *\nAllow: /x\nDisallow: /x", "/x", True),
        ("User agent: *\nDisallow: /x", "/x", False),
    ],
)
def test_a_page_is_allowed_or_not_as_rfc_9309_has_it(text, path, allowed):
    assert robots(text).allows(ALL + path) is allowed


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("User-agent: *\nCrawl-delay: 7", 7),
        ("User-agent: *\nCrawl-delay: 0.25", 0.25),
        ("User-agent: *\nRequest-rate: 1/10", 10),
        ("User-agent: *\nRequest-rate: 2/1m", 30),
        ("User-agent: *\nCrawl-delay: 2\nRequest-rate: 1/5", 5),
        ("User-agent: *\nCrawl-delay: 1e300", 86_400),
        ("User-agent: other\nCrawl-delay: 9\n\nUser-agent: *\nCrawl-delay: 1", 1),
        ("User-agent: stoker\nCrawl-delay: 9\n\nUser-agent: *\nCrawl-delay: 1", 9),
    ],
)
def test_the_longest_wait_asked_of_us_counts_within_a_day(text, seconds):
    assert robots(text).delay.total_seconds() == seconds


@pytest.mark.parametrize("value", ["soon", "-1", "nan", "inf", "", "1/0", "0/1"])
def test_a_wait_that_is_none_is_no_wait(value):
    assert robots(f"User-agent: *\nCrawl-delay: {value}\nRequest-rate: {value}").delay is None


def test_a_site_that_wants_very_long_waits_gets_one_page():
    assert robots("User-agent: *\nCrawl-delay: 61").is_home_page_only
    assert not robots("User-agent: *\nCrawl-delay: 60").is_home_page_only


def test_sitemaps_are_for_everybody_and_bounded():
    lines = "\n".join(f"Sitemap: http://acme.test/{nth}.xml" for nth in range(100))

    found = robots(f"User-agent: other\nDisallow: /\n{lines}").sitemaps

    assert found[0] == "http://acme.test/0.xml"
    assert len(found) == 10


def test_what_stands_beyond_the_limit_is_not_read():
    filler = "# " + "x" * 998 + "\n"
    text = filler * (MAX_ROBOTS_BYTES // 1000 + 1) + "User-agent: *\nDisallow: /"

    assert robots(text).allows(f"{ALL}/x")


def test_more_rules_than_we_read_are_a_no_to_everything():
    rules = "".join(f"Disallow: /{nth}\n" for nth in range(MAX_RULES + 1))

    assert robots("User-agent: *\n" + rules[: rules.rindex("Dis")]).allows(f"{ALL}/x")
    assert not robots("User-agent: *\n" + rules).allows(f"{ALL}/x")


def test_more_patterns_than_we_read_forbid_more_and_allow_nothing_more():
    rules = "".join(f"Disallow: /a{nth}/*x$\n" for nth in range(MAX_PATTERNS))
    beyond = robots(f"User-agent: *\n{rules}Disallow: /shop/*.php$\nAllow: /shop/a*\n")

    assert not beyond.allows(f"{ALL}/shop/anything")
    assert beyond.allows(f"{ALL}/other")
    assert not beyond.allows(f"{ALL}/a1/x")


def test_a_file_that_says_nothing_has_the_fingerprint_of_nothing():
    assert robots("User-agent: *\nDisallow:").fingerprint == OPEN_ROBOTS.fingerprint
    assert robots("# hello\n\n").fingerprint == OPEN_ROBOTS.fingerprint
    assert robots("User-agent: other\nDisallow: /").fingerprint == OPEN_ROBOTS.fingerprint
    assert robots("User-agent: *\nDisallow: /x").fingerprint != OPEN_ROBOTS.fingerprint
    assert robots("Sitemap: http://acme.test/s.xml").fingerprint != OPEN_ROBOTS.fingerprint


@pytest.mark.parametrize(
    ("agent", "token"),
    [
        ("Stoker/0.1 (+https://x)", "stoker"),
        ("my-crawler", "my-crawler"),
        ("  Acme_Bot 2", "acme_bot"),
        ("", ""),
    ],
)
def test_our_token_is_the_first_word_of_what_we_call_ourselves(agent, token):
    assert get_product_token(agent) == token


lines = st.sampled_from(
    ["User-agent: *", "User-agent: stoker", "User-agent: x", "Disallow: /", "Allow: /a", "", "?"]
)


@given(st.lists(lines, max_size=30))
def test_rules_for_us_are_the_only_ones_that_count_when_there_are_any(some):
    ours = ["User-agent: stoker", "Disallow: /only-us", "", *some, "Allow: /z", ""]
    rules = robots("\n".join(ours))
    more = robots("\n".join([*ours, "User-agent: *", "Disallow: /everybody"]))

    assert rules.allows(f"{ALL}/everybody") == more.allows(f"{ALL}/everybody")
    assert not rules.allows(f"{ALL}/only-us")


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
    lines, path = lines_of(rows), path.replace("\t", "")  # no URL of ours has one
    url = f"{HOST}{path if path.startswith('/') else f'/{path}'}"
    whole = Protego.parse("\n".join(["User-agent: *", *lines]))

    assert compile_rules(lines).allows(url) == whole.can_fetch(url, "*")


def test_a_path_too_long_for_patterns_is_forbidden_by_all_of_them_and_allowed_by_none():
    path = f"{ALL}/a{'b' * MAX_PATH_LENGTH}"
    assert compile_rules(["Disallow: /x"]).allows(path)
    assert not compile_rules(["Disallow: /x*"]).allows(path)
    assert not compile_rules(["Disallow: /", "Allow: /a*"]).allows(path)


def test_rules_are_read_once_and_an_address_only_compared_with_them():
    rules = robots("User-agent: *\n" + "".join(f"Disallow: /%41{n}*%42\n" for n in range(4_000)))
    with counted_calls() as calls:
        assert rules.allows(f"{ALL}/a/b")
    assert (calls["quote"], calls["parse"]) == (1, 0)
    assert calls["_matches"] <= MAX_PATTERNS


def test_more_stars_than_we_match_forbid_more():
    rules = [f"Disallow: /{n}{'*a' * 50}" for n in range(MAX_STARS // 50)]
    beyond = robots("\n".join(["User-agent: *", *rules, "Disallow: /shop/*.php$"]))
    assert not beyond.allows(f"{ALL}/shop/anything")
    assert beyond.allows(f"{ALL}/other")


@pytest.mark.parametrize("url", [HOST, f"{HOST}?x", f"{HOST}#x", f"{HOST}/#/a", f"{HOST}/a#b"])
def test_what_is_no_path_concerns_no_rule_of_a_path(url):
    assert compile_rules(["Disallow: /b"]).allows(url)
    assert not compile_rules(["Disallow: /"]).allows(url)


def test_the_longest_wait_counts_whatever_else_the_rules_say():
    lines = ["Disallow: /crawl-delay", "Crawl-delay: 3", "Request-rate: 1/20", "Allow: /rate: 9"]

    assert find_delay(lines) == timedelta(seconds=20)


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
    assert most < 25 * len(body)  # for a moment, in a process of its own
