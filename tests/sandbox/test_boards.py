"""The make-believe job boards and feeds over raw HTTP."""

import json
import xml.etree.ElementTree as Tree
from datetime import datetime
from email.utils import parsedate_to_datetime

import pytest

from running_box import RunningBox
from stoker.sandbox.world.jobs import list_openings

ATOM = "{http://www.w3.org/2005/Atom}"
PATHS = {
    "greenhouse": "/v1/boards/{}/jobs",
    "lever": "/v0/postings/{}?mode=json",
    "ashby": "/posting-api/job-board/{}",
}


@pytest.fixture(scope="module")
def box():
    with RunningBox(companies=400) as running:
        yield running


def on(box, board):
    """A company that lists its openings there, and what it has open."""
    for at in range(box.world.size):
        company = box.world.get_company(at)
        openings = list_openings(box.world, company, night=0)
        if company.board == board and any(each.lowest_pay for each in openings):
            return company, openings
    raise AssertionError(f"nobody is on {board}")


def asked(box, board, slug, **more):
    return box.ask(f"{board}.test", "GET", PATHS[board].format(slug), **more)


def test_greenhouse_lists_every_opening(box):
    company, openings = on(box, "greenhouse")
    told = asked(box, "greenhouse", company.slug).parse_json()

    assert told["meta"] == {"total": len(openings)}
    for job, opening in zip(told["jobs"], openings, strict=True):
        assert job["location"] == {"name": opening.location}
        assert datetime.fromisoformat(job["first_published"]) == opening.posted_at
        assert datetime.fromisoformat(job["updated_at"]) == opening.changed_at


def test_lever_is_a_list_paged_by_skip_and_limit(box):
    company, openings = on(box, "lever")
    everything = asked(box, "lever", company.slug).parse_json()
    paged = []
    for skip in range(len(openings) + 1):
        path = f"/v0/postings/{company.slug}?mode=json&skip={skip}&limit=1"
        paged += box.ask("lever.test", "GET", path).parse_json()

    assert paged == everything
    assert [each["text"] for each in everything] == [each.title for each in openings]
    for posting, opening in zip(everything, openings, strict=True):
        assert posting["createdAt"] == opening.posted_at.timestamp() * 1000
        assert ("salaryRange" in posting) == (opening.lowest_pay is not None)


def test_ashby_lists_every_opening(box):
    company, openings = on(box, "ashby")
    told = asked(box, "ashby", company.slug).parse_json()

    for job, opening in zip(told["jobs"], openings, strict=True):
        assert (job["title"], job["isRemote"]) == (opening.title, opening.remote)
        assert datetime.fromisoformat(job["publishedAt"]) == opening.posted_at


@pytest.mark.parametrize("board", PATHS)
def test_a_company_is_on_one_board_and_not_found_on_the_others(box, board):
    company, _ = on(box, board)

    for other in PATHS:
        told = asked(box, other, company.slug)
        assert told.status == (200 if other == board else 404)
    assert asked(box, board, "nobody-zz").status == 404


@pytest.mark.parametrize("board", PATHS)
def test_what_has_not_changed_need_not_be_sent_again(box, board):
    company, _ = on(box, board)
    tag = asked(box, board, company.slug).headers["etag"]
    again = asked(box, board, company.slug, headers={"If-None-Match": tag})

    assert (again.status, again.body) == (304, b"")


def test_openings_come_and_go_from_night_to_night():
    with RunningBox(companies=400) as box:
        company, _ = on(box, "greenhouse")
        nights = []
        for night in (0, 0, 30):
            box.faults.set_value("sites.night", night)
            nights.append(asked(box, "greenhouse", company.slug).body)

    assert nights[0] == nights[1]
    assert nights[0] != nights[2]
    numbers = [{job["id"] for job in json.loads(body)["jobs"]} for body in nights]
    assert numbers[0] - numbers[2] or numbers[2] - numbers[0]


def test_feeds_say_in_rss_and_atom_what_is_open(box):
    company, openings = on(box, "lever")
    rss = Tree.fromstring(box.ask("feeds.test", "GET", f"/{company.slug}/jobs.rss").body)
    atom = Tree.fromstring(box.ask("feeds.test", "GET", f"/{company.slug}/jobs.atom").body)

    items = rss.findall("channel/item")
    assert [item.findtext("title") for item in items] == [each.title for each in openings]
    assert [parsedate_to_datetime(item.findtext("pubDate")) for item in items] == [
        each.posted_at for each in openings
    ]
    entries = atom.findall(f"{ATOM}entry")
    assert [entry.findtext(f"{ATOM}title") for entry in entries] == [e.title for e in openings]
    assert all(entry.find(f"{ATOM}link").get("href") for entry in entries)


def test_a_feed_can_be_asked_for_only_if_it_changed(box):
    company, _ = on(box, "lever")
    path = f"/{company.slug}/jobs.rss"
    first = box.ask("feeds.test", "GET", path)
    again = box.ask("feeds.test", "GET", path, headers={"If-None-Match": first.headers["etag"]})

    assert first.headers["last-modified"]
    assert (again.status, again.body) == (304, b"")


def test_hostile_feeds_are_what_they_say(box):
    def feed(name):
        return box.ask("feeds.test", "GET", f"/hostile/{name}.rss").body

    assert b"<!ENTITY e9" in feed("bomb")
    assert feed("items").count(b"<item>") == 100_000
    assert feed("dates").count(b"<pubDate>") == 9
    with pytest.raises(Tree.ParseError):
        Tree.fromstring(feed("broken"))
    assert box.ask("feeds.test", "GET", "/hostile/other.rss").status == 404
    assert box.ask("feeds.test", "GET", "/nobody-zz/jobs.rss").status == 404
