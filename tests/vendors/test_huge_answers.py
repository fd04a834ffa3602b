"""However much a vendor answers, what is done with it is bounded by what was asked."""

import json

import pytest

from kit.counted_work import counted_calls
from stoker.base.errors import UncertainError
from stoker.vendors.lusha import PeopleQuery, RevealQuery
from stoker.vendors.tavily import MAX_PAGES, PageTextsQuery, SearchQuery
from stoker.vendors.zerobounce import EmailBatch
from vendor_desk import Saying, at_desk

STRANGE = "é" * 20
HOSTS = [f"http://{STRANGE}.{'é.' * 60}{n}.test/" for n in range(1_000)]
RESULTS = {
    "results": [
        {
            "url": host,
            "id": f"ct-{n}",
            "firstName": STRANGE,
            "lastName": f"{n}",
            "emails": [{"email": f"{STRANGE}{m}@{STRANGE}.test"} for m in range(3)],
            "content": STRANGE,
        }
        for n, host in enumerate(HOSTS)
    ],
    "failed_results": [{"url": host} for host in HOSTS],
    "email_batch": [{"address": f"a{n}@b.test", "status": "valid"} for n in range(1_000)],
    "errors": [{"email_address": STRANGE, "error": STRANGE} for _ in range(1_000)],
}
QUESTIONS = {
    "search": (SearchQuery(query="a"), "parse_url", MAX_PAGES),
    "reading": (PageTextsQuery(urls=("http://a.test/",)), "parse_url", MAX_PAGES),
    "people": (PeopleQuery(domain="a.test"), "_parse_person", 25),
    "reveal": (RevealQuery(ids=("ct-1", "ct-2")), "normalize_email", 2 * 20),
    "verifier": (EmailBatch(emails=("a1@b.test",)), "get_line", 4 * 100),
}


@pytest.mark.parametrize("name", QUESTIONS)
async def test_an_answer_with_thousands_of_items_is_read_as_far_as_it_was_asked_for(name):
    question, work, most = QUESTIONS[name]

    async def ask(here):
        with counted_calls() as calls:
            done = await getattr(here, name).ask(question, key="k")
        return done, calls

    done, calls = await at_desk(ask, says=Saying(RESULTS), deadline=30.0)
    assert done.answer is not None
    assert 0 < calls[work] <= most + 5  # and the addresses of the request itself
    assert calls["_clean"] == 0  # so much is read in a worker


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000,
        b'{"results":' * 30_000,
        b'{"results": [' + b"0," * 150_000 + b"0]}",
        b'{"results": [' + b"9" * 60_000 + b"]}",
        b'{"results": ["' + "ž".encode("utf-16") * 30_000 + b'"]}',
        json.dumps({"results": []}).encode("utf-16") + b" " * 60_000,
        b'{"results": [], "results": []}' + b" " * 60_000,
    ],
    ids=[
        "deep lists",
        "deep objects",
        "many values",
        "long number",
        "odd bytes",
        "utf-16",
        "twice",
    ],
)
@pytest.mark.parametrize("name", QUESTIONS)
async def test_what_is_no_json_of_a_bounded_size_may_have_been_charged(name, body):
    async def ask(here):
        with counted_calls() as calls, pytest.raises(UncertainError):
            await getattr(here, name).ask(QUESTIONS[name][0], key="k")
        return calls

    assert (await at_desk(ask, says=Saying(body), deadline=30.0))["_clean"] == 0
