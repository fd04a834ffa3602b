"""Tables of profiles from a disk and from the web."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from stoker.base.errors import ConfigError, TransientError
from stoker.http.client import HttpClient
from stoker.http.client import Response as Reply
from stoker.sandbox.http import Response, to_page_response, to_text_response
from stoker.sandbox.server import Sandbox
from stoker.touches.model import Profile
from stoker.touches.profile_import import fetch_profiles, read_profiles_file

HOW = {"zone": ZoneInfo("Asia/Singapore"), "now": datetime(2026, 2, 9, tzinfo=UTC)}
TABLE = "url,name\r\nhttps://p.test/a,Ann\r\nnope,X\r\n"


async def fetched(told, url="http://sheets.test/people.csv"):
    async with Sandbox(vendors={"sheets.test": lambda *_: told}) as box:
        http = HttpClient(user_agent="Stoker/test", sandbox=box.address)
        try:
            return await fetch_profiles(http, url, **HOW)
        finally:
            await http.close()


async def test_a_file_is_read_and_its_bad_rows_are_told(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("\ufeff" + TABLE)
    told = await read_profiles_file(path, **HOW)
    assert told.profiles == (Profile(url="https://p.test/a", name="Ann"),)
    assert [each.where for each in told.bad_rows] == ["line 3"]


@pytest.mark.parametrize("content", [None, b"", b"name\nAnn\n", b"\x00\xff\xfe"])
async def test_a_file_that_is_no_table_is_refused_by_name(tmp_path, content):
    path = tmp_path / "people.csv"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"people\.csv"):
        await read_profiles_file(path, **HOW)


async def test_a_table_on_the_web_is_read_also_behind_a_redirect():
    def told(asked):
        if asked.path == "/people.csv":
            return Response(status=307, headers={"location": "http://sheets.test/elsewhere"})
        return to_text_response(TABLE)

    assert [each.name for each in (await fetched(told)).profiles] == ["Ann"]


@pytest.mark.parametrize(
    "answer",
    [
        Response(status=403),
        Response(status=404),
        Response(status=204),
        to_page_response("<h1>Sign in</h1>"),
        to_text_response("name\nAnn\n"),
        Response(status=302, headers={"location": "http://sheets.test/people.csv"}),
    ],
)
async def test_a_table_that_is_not_open_to_us_is_for_people_to_put_right(answer):
    with pytest.raises(ConfigError):
        await fetched(lambda _: answer)


@pytest.mark.parametrize(
    "answer", [Response(status=429), Response(status=500), Response(reset=True)]
)
async def test_a_server_in_trouble_is_asked_another_time(answer):
    with pytest.raises(TransientError):
        await fetched(lambda _: answer)


async def test_an_address_we_do_not_visit_is_refused():
    with pytest.raises(ConfigError):
        await fetched(lambda _: to_text_response(TABLE), url="http://127.0.0.1/people.csv")


class CutOff:
    """An HTTP client whose answers end before their end."""

    async def send(self, call):
        body = TABLE.encode()
        return Reply(
            status=200, headers={}, body=body, url=call.url, truncated=True, wire_bytes=len(body)
        )


async def test_a_table_that_is_too_long_is_not_imported_in_part():
    with pytest.raises(ConfigError, match="split the table"):
        await fetch_profiles(CutOff(), "http://sheets.test/people.csv", **HOW)
