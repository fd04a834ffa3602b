"""Feeds and boards' answers made to cost time or memory: counted before they are taken in."""

import json
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.base.errors import PermanentError
from stoker.base.process_pool import Aborted
from stoker.base.types import Job
from stoker.discovery.boards import BOARD_APIS, Board, read_board_page
from stoker.discovery.feeds import MAX_BYTES, MAX_ELEMENTS, MAX_TAG_BYTES, Feeds, read_feed
from stoker.discovery.matching import EmployerIndex
from stoker.discovery.model import (
    BATCH_SIZE,
    MAX_CHARACTERS,
    MAX_POSTINGS,
    Postings,
    RawPosting,
    parse_postings,
    split_postings,
    to_plain_line,
)
from stoker.discovery.sources import parse_source
from stoker.http.client import Response

MEMORY = 32 * 2**20  # bytes for one source
GOOD = b"<item><title>Good</title><link>https://a.test/good</link></item>"


def feed(*parts):
    return b"<rss><channel><title>Acme</title>" + b"".join(parts) + b"</channel></rss>"


def item(n, more=b"", *, title=b"Cook", url=b""):
    link = url or b"https://a.test/%d" % n
    return b"<item><title>%b</title><link>%b</link>%b</item>" % (title, link, more)


def items(number, more=b"", **parts):
    return b"".join(item(n, more, **parts) for n in range(number))


faces = "\U0001f600".encode()

HOSTILE = {  # what makes each, how many postings are read of it, and whether there was more
    "attributes": (
        lambda: feed(GOOD, b"<x " + b" ".join(b'a%d=""' % n for n in range(400_000)) + b"/>"),
        1,
        False,
    ),
    "attributes with brackets": (
        lambda: feed(GOOD, b"<x " + b" ".join(b'a%d=">"' % n for n in range(300_000)) + b"/>"),
        1,
        False,
    ),
    "a long comment": (lambda: feed(GOOD, b"<!--" + b"x" * 4_000_000 + b"-->"), 1, False),
    "a long name": (lambda: feed(GOOD, b"<" + b"x" * 4_000_000 + b"/>"), 1, False),
    "tiny elements": (lambda: feed(GOOD, b"<a/>" * 1_200_000), 1, True),
    "a long namespace": (
        lambda: (
            b'<rss xmlns="' + b"u" * (MAX_TAG_BYTES - 20_000) + b'">' + GOOD + b"<a/>" * 200_000
        ),
        1,
        False,
    ),
    "deep": (lambda: feed(GOOD, b"<a>" * 1_000_000), 1, False),
    "many items": (lambda: feed(items(60_000)), MAX_POSTINGS, True),
    "wide texts": (
        lambda: feed(items(8_000, b"<description>" + faces + b"x" * 500 + b"</description>")),
        8_000,
        False,
    ),
    "wide titles": (lambda: feed(items(1_200, title=faces + b"t" * 4_000)), 1_200, False),
    "wide addresses": (
        lambda: feed(
            *(item(n, url=b"https://a.test/%d/" % n + faces + b"x" * 1_900) for n in range(2_400))
        ),
        None,
        True,
    ),
    "unknown names": (
        lambda: feed(
            items(
                1_300, b"<description>" + b"&amp;aaaaaaaaaaaaaaaaaaaaaaa" * 99 + b"</description>"
            )
        ),
        1_300,
        False,
    ),
    "odd dates": (
        lambda: feed(items(9_000, b"<pubDate>Mon, 99 Xyz 99999 99:99:99 +9999 ((((((</pubDate>")),
        9_000,
        False,
    ),
    "foreign hosts": (
        lambda: feed(
            b"".join(
                item(n, url=("https://" + ".".join([f"é{n}" + "ü" * 40] * 4) + "/").encode())
                for n in range(9_000)
            )
        ),
        9_000,
        False,
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_feed_gives_what_is_good_of_it_and_takes_little_memory(name):
    build, number, more = HOSTILE[name]
    body = build()
    tracemalloc.start()
    try:
        found = read_feed(body[:MAX_BYTES], cut=len(body) > MAX_BYTES)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < MEMORY
    assert found.truncated is more
    assert len(found.listings) == (number or len(found.listings)) > 0


def test_a_feed_of_entities_is_refused_before_any_is_made():
    bomb = b"".join(b'<!ENTITY e%d "%b">' % (n, b"&e%d;" % (n - 1) * 10) for n in range(1, 30))
    with pytest.raises(PermanentError, match="entities"):
        read_feed(b'<!DOCTYPE rss [<!ENTITY e0 "x">' + bomb + b"]>" + feed(b"&e29;"))


def test_a_tag_as_long_as_is_allowed_is_read_and_a_longer_one_ends_the_feed():
    for length, titles in ((MAX_TAG_BYTES - 20_000, ["Good", "Good"]), (200_000, ["Good"])):
        body = feed(GOOD, b"<x a='" + b"y" * length + b"'/>", GOOD.replace(b"good", b"2"))
        found = read_feed(body)
        assert [each.job.title for each in found.listings] == titles
        assert found.rejected == (len(titles) == 1)


def test_elements_with_prefixes_are_known_by_their_names():
    body = b"""<rdf:RDF xmlns:rdf="r" xmlns:dc="d"><item><dc:title>Cook</dc:title>
      <link>https://a.test/1</link><dc:date>2026-11-01</dc:date></item></rdf:RDF>"""
    (listing,) = read_feed(body).listings
    assert (listing.job.title, listing.job.posted_at.isoformat()[:10]) == ("Cook", "2026-11-01")


@pytest.mark.parametrize("text", ["&#" + "1" * 5_000 + ";", "&#x" + "f" * 5_000 + ";", "&nope;"])
def test_a_number_without_end_is_no_letter_and_no_error(text):
    assert to_plain_line(f"Cook {text[:400]} &amp; &#233;").endswith("& é")
    raw = RawPosting(where="x", url="https://a.test/1", title=f"Cook {text}", text=text)
    assert len(parse_postings("feed", [raw]).listings) == 1


def test_only_so_many_characters_of_a_source_are_kept():
    raws = (
        RawPosting(where="", url=f"https://a.test/{n}", title="t" * 500, location="l" * 500)
        for n in range(MAX_POSTINGS)
    )
    found = parse_postings("feed", raws)
    assert found.truncated
    assert MAX_CHARACTERS // 1_100 < len(found.listings) < MAX_CHARACTERS // 1_000 + 2


PARTS = st.sampled_from(
    [
        *(b"<item>", b"</item>", b"<entry>", b"</entry>", b"<title>", b"</title>", b"<link>"),
        *(b"</link>", b'<link href="https://a.test/1"/>', b"<![CDATA[", b"]]>", b"<!--", b"-->"),
        *(b"&amp;", b"&#x0;", b"&#1114112;", b"&nope;", b"<?x ?>", b"<a b='c'>", b"</a>", b"\xff"),
        *(b"https://a.test/2", b"Cook", b"<x:y xmlns:x='z'>", b"</x:y>", faces, b"<guid>", b"\0"),
    ]
)


@settings(max_examples=300)
@given(st.lists(PARTS, max_size=40))
def test_no_mixture_of_parts_gets_past_the_reader_of_feeds(parts):
    try:
        found = read_feed(feed(*parts))
    except PermanentError:
        return
    assert len(found.listings) + found.rejected <= len(parts) + 1


JOBS = {"greenhouse": "absolute_url", "lever": "hostedUrl", "ashby": "jobUrl"}


def answer(vendor, jobs):
    return json.dumps(jobs if vendor == "lever" else {"jobs": jobs}).encode()


@pytest.mark.parametrize("vendor", JOBS)
def test_what_is_kept_of_a_hostile_answer_takes_little_memory(vendor):
    jobs = [
        {JOBS[vendor]: f"https://a.test/{n}/" + "x" * 900, "title": "\U0001f600" + "t" * 900}
        for n in range(4_000)
    ]
    for job in jobs:
        job["text"] = job["title"]
    body = answer(vendor, jobs)
    number, found = read_board_page(vendor, body, company="Acme", first=7)
    assert number == (100 if vendor == "lever" else 4_000)
    assert len(found.listings) > 90
    tracemalloc.start()
    try:
        kept = [*split_postings(found)]
        assert tracemalloc.get_traced_memory()[1] < MEMORY
    finally:
        tracemalloc.stop()
    assert max(len(each.listings) for each in kept) <= BATCH_SIZE


def test_a_source_is_taken_in_by_batches_and_counted_once():
    raws = [RawPosting(where="", url=f"https://a.test/{n}", title="Cook") for n in range(2_500)]
    found = parse_postings("feed", [*raws, RawPosting(where="bad")])
    batches = [*split_postings(found)]
    assert [len(each.listings) for each in batches] == [BATCH_SIZE, BATCH_SIZE, 500]
    assert sum((each.listings for each in batches), ()) == found.listings
    assert [(each.rejected, each.requests) for each in batches] == [(1, 1), (0, 0), (0, 0)]
    unchanged = Postings(unchanged=True)
    assert [*split_postings(unchanged)] == [unchanged]


class Answering:
    """An HTTP client with one answer."""

    def __init__(self, body):
        self._body = body

    async def send(self, call):
        size = len(self._body)
        return Response(
            status=200, headers={}, body=self._body, url=call.url, truncated=False, wire_bytes=size
        )


class GivingUp:
    """Worker processes that give up whatever they are asked to read."""

    def __init__(self):
        self.asked = []

    async def run(self, function, *args, **named):
        self.asked.append(function)
        return Aborted("it takes too much processor time to read")


async def test_what_takes_too_long_to_read_is_given_up_off_the_event_loop():
    pool = GivingUp()
    board = Board(Answering(b"[]"), BOARD_APIS["lever"], base_url="https://lever.test", pool=pool)
    with pytest.raises(PermanentError, match="processor time"):
        await board.read_postings("acme")
    with pytest.raises(PermanentError, match="processor time"):
        await Feeds(Answering(feed(GOOD)), pool=pool).read_postings("https://feeds.test/x")
    assert pool.asked == [read_board_page, read_feed]


def test_a_foreign_address_that_takes_long_to_read_names_no_account():
    employers, source = EmployerIndex(), parse_source("feed:https://a.test/x")
    for url, known in (
        ("https://é.test/1", 1),
        ("https://" + ".".join(["é" * 20] * 5) + ".test/", 1),
        ("https://" + "e" * 60 + ".test/", 2),
    ):
        job = Job.create(source="feed", url=url, title="Cook")
        employers.add_posting(source, job)
        assert len(employers) == known


def test_there_are_no_more_elements_than_are_counted():
    body = feed(b"<a/>" * MAX_ELEMENTS, GOOD)
    assert read_feed(body).truncated
    assert read_feed(body).listings == ()
