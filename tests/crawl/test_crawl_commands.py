import asyncio
import json
import threading
from contextlib import contextmanager

import pytest

from stoker.cli.main import main
from stoker.cli.output import Exit
from stoker.sandbox.http import Response, to_page_response
from stoker.sandbox.server import Sandbox

QUICK = ("--set", "crawl.gap_s=0.01")  # nobody is there to be polite to
PROSE = "We make anvils and hammers for smiths all over the region, and like it. " * 5


@contextmanager
def served(pages):
    """A site on the make-believe internet, served by a thread while a command runs."""

    def told(asked):
        body = pages.get(asked.path)
        if body is None:
            return Response(status=404)
        if asked.headers.get("if-none-match") == '"1"':
            return Response(status=304, headers={"etag": '"1"'})
        whole = to_page_response(f"<title>Acme</title><p>{PROSE}</p>{body}")
        return whole.replace_fields(headers={**whole.headers, "etag": '"1"'})

    ready, done, box = threading.Event(), threading.Event(), []

    async def serve():
        async with Sandbox(vendors={"acme.test": lambda *_: told}) as sandbox:
            box.append(sandbox)
            ready.set()
            await asyncio.to_thread(done.wait)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    ready.wait(10)
    try:
        yield box[0].address
    finally:
        done.set()
        thread.join()


@pytest.fixture
def crawl(tmp_path, capsys):
    def crawl(*arguments):
        code = main(["-C", str(tmp_path), *QUICK, "crawl", *arguments])
        return code, capsys.readouterr().out

    return crawl


def test_a_site_is_shown_and_the_second_time_only_changes_are_asked_for(crawl):
    pages = {"/": "<a href='mailto:info@acme.test'>x</a><a href=/about>About</a>", "/about": "Us"}
    with served(pages) as address:
        code, out = crawl("acme.test", "--sandbox", address)
        again = json.loads(crawl("acme.test", "--sandbox", address, "--json")[1])
        whole = json.loads(crawl("acme.test", "--sandbox", address, "--json", "--again")[1])

    assert code == Exit.OK
    assert "read – 2 pages read" in out
    assert "info@acme.test" in out
    assert again["outcome"] == "unchanged"
    assert again["not_modified"] == 2
    assert [page["kind"] for page in whole["pages"]] == ["home", "about"]


def test_one_request_is_said_as_one(crawl):
    with served({"/robots.txt": "\nUser-agent: *\nDisallow: /\n", "/": "Us"}) as address:
        out = crawl("acme.test", "--sandbox", address)[1]

    assert "\n1 request, " in out


def test_at_most_so_many_pages_are_read(crawl):
    with served({"/": "<a href=/about>About</a>", "/about": "Us"}) as address:
        told = json.loads(crawl("acme.test", "--sandbox", address, "--json", "--max-pages", "1")[1])

    assert [page["kind"] for page in told["pages"]] == ["home"]


def test_a_site_that_is_not_there_is_a_problem_in_one_sentence(crawl):
    with served({}) as address:
        code, out = crawl("acme.test", "--sandbox", address)

    assert code == Exit.PROBLEMS
    assert "gone – the website has no home page" in out


def test_a_look_counts_pull_units_and_a_cap_that_is_used_up_allows_none(tmp_path, capsys):
    with served({"/": "Us"}) as address:
        settings = ["--set", f"sandbox.address={address}", "--set", "caps.pull_units_per_day=1"]
        command = ["-C", str(tmp_path), *settings]
        first = main([*command, "crawl", "acme.test"])
        asked = main([*command, "crawl", "acme.test"])
        said = capsys.readouterr()
        main([*command, "caps", "list", "--json"])
        caps = {line["cap"]: line for line in json.loads(capsys.readouterr().out)["caps"]}

    assert (first, asked) == (Exit.OK, Exit.LATER)
    assert "tenant/*/pull_units/day has 0 of 1 left, 1 needed; acme.test was not" in said.err
    assert caps["tenant/*/pull_units/day"]["used"] == 1


def test_a_stop_is_heeded_and_nobody_is_visited(tmp_path, capsys):
    with served({"/": "Us"}) as address:
        there = ["-C", str(tmp_path), "--set", f"sandbox.address={address}"]
        main([*there, "stop", "--connector", "crawl", "--reason", "too many mails"])
        code = main([*there, "crawl", "acme.test"])

    assert code == Exit.LATER
    assert "too many mails" in capsys.readouterr().err


def test_what_is_no_address_is_said_to_be_none(crawl, capsys):
    assert crawl("http://127.0.0.1/")[0] == Exit.FAILED


@pytest.mark.parametrize(
    "text", ["javascript:alert(1)", "mailto:mei@acme.test", "data:text/html,x", "http:/acme.test"]
)
def test_what_has_another_scheme_is_no_web_address_and_has_no_port(tmp_path, capsys, text):
    assert main(["-C", str(tmp_path), "crawl", text]) == Exit.FAILED
    said = capsys.readouterr().err
    assert "this is not a web address; it needs http:// or https:// and a host" in said


def test_a_host_may_be_given_with_its_port(crawl):
    with served({"/": "Us"}) as address:
        assert crawl("acme.test:80", "--sandbox", address)[0] == Exit.OK
