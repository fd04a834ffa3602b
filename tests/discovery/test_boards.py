"""Job boards and feeds, read from the make-believe ones and from servers that talk nonsense."""

import json
from contextlib import asynccontextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.base.errors import ConfigError, PermanentError, TransientError
from stoker.discovery.boards import BOARD_APIS, LEVER_PAGE_SIZE, MAX_BYTES, AllBoards, Board
from stoker.discovery.feeds import Feeds, parse_feed
from stoker.discovery.model import MAX_POSTINGS, Validators, parse_postings
from stoker.http.client import HttpClient
from stoker.sandbox.http import Response
from stoker.sandbox.server import Sandbox
from stoker.sandbox.world.jobs import list_openings

each_board = pytest.mark.parametrize("kind", BOARD_APIS)


def board(http, kind, *, at=None, **more):
    return Board(http, BOARD_APIS[kind], base_url=at or f"http://{kind}.test", **more)


NONSENSE = "http://board.test"


async def in_sandbox(work, **how):
    async with Sandbox(**{"companies": 200, **how}) as box:
        http = HttpClient(user_agent="Stoker test", sandbox=box.address)
        try:
            return await work(box, http)
        finally:
            await http.close()


async def said_by(handler, work):
    """Ask a server that answers as it is told to."""
    return await in_sandbox(
        lambda _, http: work(http), vendors={"board.test": lambda world, dials, tallies: handler}
    )


async def read_from(handler, kind="lever", **how):
    """Read a board of a server that answers as it is told to."""
    return await said_by(
        handler, lambda http: board(http, kind, at=NONSENSE).read_postings("acme", **how)
    )


async def read(kind, body, *, status=200):
    return await read_from(lambda asked: Response(status=status, body=body), kind)


def lever_page(count):
    return [{"hostedUrl": f"https://a.test/{n}", "text": f"Job {n}"} for n in range(count)]


class Turns:
    """What waits for a turn, and writes down at which host."""

    def __init__(self):
        self.hosts = []

    @asynccontextmanager
    async def __call__(self, host):
        self.hosts.append(host)
        yield


def on_board(world, kind):
    companies = (world.get_company(at) for at in range(200))
    return next(
        each for each in companies if each.board == kind and list_openings(world, each, night=0)
    )


@each_board
async def test_every_opening_comes_with_company_place_and_moment(kind):
    async def work(box, http):
        company = on_board(box.world, kind)
        found = await board(http, kind).read_postings(company.slug, company=company.brand)
        return company, list_openings(box.world, company, night=0), found

    company, openings, found = await in_sandbox(work)

    assert not found.rejects
    assert not found.truncated
    assert [(job.title, job.location, job.posted_at, job.company) for job in found.jobs] == [
        (each.title, each.location, each.posted_at, company.brand) for each in openings
    ]
    assert {job.source for job in found.jobs} == {kind}


@each_board
@pytest.mark.parametrize("name", ["", "../admin", "a b", "a/b", "a?b", "x" * 101])
async def test_a_boards_name_cannot_lead_elsewhere(kind, name):
    async def work(box, http):
        with pytest.raises(PermanentError):
            await board(http, kind).read_postings(name)
        return box.meter.requests

    assert await in_sandbox(work) == 0


def wrapped(kind, jobs):
    return json.dumps(jobs if kind == "lever" else {"jobs": jobs}).encode()


anything = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9**9) | st.just(0.5) | st.text(max_size=20),
    lambda inside: (
        st.lists(inside, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["jobs", "title", "text", "absolute_url", "hostedUrl", "jobUrl", "location"]
            ),
            inside,
            max_size=4,
        )
    ),
    max_leaves=8,
)
GOOD = {
    "absolute_url": "https://a.test/1",
    "hostedUrl": "https://a.test/1",
    "jobUrl": "https://a.test/1",
    "title": "Engineer",
    "text": "Engineer",
}


@each_board
@settings(max_examples=25)
@given(bad=st.lists(anything, max_size=5))
async def test_bad_postings_never_lose_the_good_one(kind, bad):
    jobs = (await read(kind, wrapped(kind, [*bad, GOOD]))).jobs
    assert "https://a.test/1" in [job.url for job in jobs]


@each_board
@pytest.mark.parametrize("body", [b"", b"null", b'{"jobs": 3}', b"[", b"<html>", b'"x"', b"{}"])
async def test_an_answer_of_the_wrong_shape_is_one_to_ask_for_again(kind, body):
    with pytest.raises(TransientError):
        await read(kind, body)


@pytest.mark.parametrize(("status", "error"), [(302, ConfigError), (304, PermanentError)])
async def test_what_a_board_refuses_with_says_what_to_do(status, error):
    with pytest.raises(error):
        await read("ashby", b"{}", status=status)


async def test_lever_is_read_page_by_page_to_its_end():
    everything = lever_page(250)

    def handler(asked):
        skip, limit = int(asked.get_argument("skip")), int(asked.get_argument("limit"))
        return Response(
            headers={"etag": '"x"'}, body=json.dumps(everything[skip : skip + limit]).encode()
        )

    found = await read_from(handler)

    assert [job.title for job in found.jobs] == [each["text"] for each in everything]
    assert found.validators == Validators()  # of a first page, which says nothing of the others


async def test_only_the_first_page_is_asked_for_with_what_is_known():
    page = lever_page(LEVER_PAGE_SIZE)

    def handler(asked):
        if asked.get_argument("skip") != "0":
            return (
                Response(status=304) if "if-none-match" in asked.headers else Response(body=b"[]")
            )
        return Response(body=json.dumps(page).encode())

    found = await read_from(handler, known=Validators(etag='"x"'))
    assert len(found.jobs) == LEVER_PAGE_SIZE


async def test_a_date_does_where_a_board_gives_no_tag_and_nonsense_is_not_kept():
    when = "Sun, 01 Nov 2026 18:00:00 GMT"

    def handler(asked):
        if asked.headers.get("if-modified-since") == when:
            return Response(status=304)
        headers = {"last-modified": when, "etag": "x" * 5000}
        return Response(headers=headers, body=wrapped("ashby", [GOOD]))

    async def work(http):
        one = board(http, "ashby", at=NONSENSE)
        first = await one.read_postings("acme")
        return first, await one.read_postings("acme", known=first.validators)

    first, again = await said_by(handler, work)

    assert first.validators == Validators(last_modified=when)
    assert again.unchanged


async def test_a_board_that_repeats_itself_for_ever_is_left():
    asked_for = []
    page = json.dumps(lever_page(LEVER_PAGE_SIZE)).encode()

    def handler(asked):
        asked_for.append(asked.number)
        return Response(body=page)

    found = await read_from(handler)
    assert (len(found.jobs), len(asked_for)) == (LEVER_PAGE_SIZE, 2)


async def test_what_ashby_does_not_list_is_not_taken():
    hidden = {**GOOD, "jobUrl": "https://a.test/2", "isListed": False}
    assert [job.url for job in (await read("ashby", wrapped("ashby", [hidden, GOOD]))).jobs] == [
        "https://a.test/1"
    ]


@pytest.mark.parametrize("kind", ["rss", "atom"])
async def test_a_feed_lists_what_is_open_and_is_read_again_only_when_it_changed(kind):
    async def work(box, http):
        company = next(
            each
            for each in (box.world.get_company(at) for at in range(50))
            if list_openings(box.world, each, night=0)
        )
        url = f"http://feeds.test/{company.slug}/jobs.{kind}"
        found = await Feeds(http).read_postings(url, company=company.brand)
        again = await Feeds(http).read_postings(url, known=found.validators)
        return list_openings(box.world, company, night=0), found, again, company

    openings, found, again, company = await in_sandbox(work)

    assert [(job.title, job.posted_at) for job in found.jobs] == [
        (each.title, each.posted_at) for each in openings
    ]
    assert all(job.url.startswith(f"http://{company.domain}/careers/") for job in found.jobs)
    assert (again.unchanged, again.jobs) == (True, ())


async def hostile(name):
    return await in_sandbox(
        lambda _, http: Feeds(http).read_postings(f"http://feeds.test/hostile/{name}")
    )


async def test_a_feed_with_entities_of_its_own_is_refused_unread():
    with pytest.raises(PermanentError):
        await hostile("bomb.rss")


def test_a_document_type_alone_is_reason_enough():
    with pytest.raises(PermanentError, match="entities"):
        parse_feed(b'<!DOCTYPE rss SYSTEM "http://elsewhere.test/rss.dtd"><rss></rss>')


def test_a_feed_too_deep_is_read_down_to_there():
    item = b"<item><title>Kept</title><link>http://feeds.test/1</link></item>"
    _, raws, _ = parse_feed(b"<rss><channel>" + item + b"<a>" * 200 + b"</a>" * 200)

    assert [raw.title for raw in raws] == ["Kept", ""]
    assert raws[1].parse_error


async def test_a_feed_that_breaks_off_gives_what_came_before():
    found = await hostile("broken.rss")

    assert [job.title for job in found.jobs] == ["Kept"]
    assert found.rejects[0].reason == "the feed is cut off here"


@pytest.mark.parametrize("name", ["items.rss", "huge.rss"])
async def test_a_feed_without_end_is_read_so_far(name):
    found = await hostile(name)

    assert len(found.jobs) == MAX_POSTINGS
    assert found.truncated
    assert found.jobs[1].title == "Job 1"


def test_only_the_items_own_words_count():
    body = b"""<feed xmlns="http://www.w3.org/2005/Atom"><title>Jobs</title>
      <entry><source><title>Elsewhere</title><link href="http://elsewhere.test/"/></source>
      <link rel="self" href="http://feeds.test/self"/><link href="http://feeds.test/1"/>
      <title>Cook &amp; <![CDATA[<b>]]></title></entry></feed>"""
    title, raws, _ = parse_feed(body)
    (job,) = parse_postings("feed", raws, company=title).jobs

    assert (job.title, job.company) == ("Cook &", "Jobs")
    assert job.url == "http://feeds.test/1"


@pytest.mark.parametrize("body", [b"", b"<html><body/></html>", b"{}", b"\xff\xfe", b"<rss"])
def test_what_is_no_feed_is_said_to_be_none(body):
    with pytest.raises(PermanentError):
        parse_feed(body)


@given(st.binary(max_size=200))
def test_no_bytes_get_past_the_reader_of_feeds(body):
    for each in (body, b"<rss><channel><item><title>" + body, b"<feed>" + body + b"</feed>"):
        try:
            _, raws, _ = parse_feed(each)
        except PermanentError:
            continue
        assert parse_postings("feed", raws) is not None


@each_board
async def test_every_call_waits_for_its_turn(kind):
    turn = Turns()
    page = [{**GOOD, "hostedUrl": f"https://a.test/{nth}"} for nth in range(LEVER_PAGE_SIZE)]

    def handler(asked):
        return Response(body=wrapped(kind, page if asked.get_argument("skip") == "0" else [GOOD]))

    async def work(http):
        one = board(http, kind, at=NONSENSE, turn=turn)
        found = await one.read_postings("acme")
        await one.check()
        return found

    found = await said_by(handler, work)

    assert found.requests == (2 if kind == "lever" else 1)
    assert turn.hosts == ["board.test"] * (found.requests + 1)


@pytest.mark.parametrize("kind", ["lever", "ashby"])
async def test_what_a_board_says_of_the_work_is_looked_at(kind):
    said = {"descriptionPlain": "We use Python.", "workplaceType": "remote", "isRemote": True}
    (listing,) = (await read(kind, wrapped(kind, [{**GOOD, **said}]))).listings
    assert (listing.enriched.stack, listing.enriched.remote) == (("python",), True)


def test_the_text_of_a_feeds_item_is_looked_at_and_not_kept():
    body = b"""<rss><channel><item><title>Cook</title><link>http://feeds.test/1</link>
      <description>&lt;p&gt;Python, &amp;amp; AWS&lt;/p&gt;</description></item></channel></rss>"""
    (listing,) = parse_postings("feed", parse_feed(body)[1]).listings
    assert listing.enriched.stack == ("aws", "python")


@pytest.mark.parametrize(
    ("status", "there"), [(404, True), (403, True), (429, False), (500, False)]
)
async def test_boards_are_there_when_they_answer_whatever_they_say(status, there):
    async def work(http):
        return await AllBoards([board(http, kind, at=NONSENSE) for kind in BOARD_APIS]).check()

    health = await said_by(lambda asked: Response(status=status), work)
    assert health.ok is there
    assert all(kind in health.detail for kind in BOARD_APIS)


@each_board
async def test_an_answer_that_was_cut_off_is_not_taken_for_the_whole(kind):
    body = wrapped(kind, [])
    await read(kind, body)
    with pytest.raises(TransientError, match="more than"):
        await read(kind, body + b" " * MAX_BYTES)
