"""The portal's client against the make-believe portal: lists, downloads, limits, refusals."""

import resource
import tracemalloc
from contextlib import contextmanager
from datetime import timedelta
from itertools import count

import pytest

from running_box import RunningBox
from stoker.base.errors import ConfigError, PermanentError, TransientError
from stoker.http.client import HttpClient
from stoker.http.client import Response as ClientResponse
from stoker.rate_limits.rate_limit import LocalRateLimiter, Rate
from stoker.registry.download import ATTEMPTS, DataGov, PublishedFile, fetch_file
from stoker.registry.files import open_register_files
from stoker.registry.model import PARTS
from stoker.sandbox.http import Response, to_json_response
from stoker.testing import FakeClock

HOST = "data-gov.test"
DATASET = "d_" + "0" * 32
LISTED = "ACRA Information on Corporate Entities ('Q')"


@pytest.fixture(scope="module")
def box():
    with RunningBox(companies=300) as running:
        yield running


@pytest.fixture
def dialled(box):
    """Turn dials of the portal for one test."""
    turned = []

    def turn(dial, value):
        turned.append(dial)
        box.faults.set_value(f"data_gov.{dial}", value)

    yield turn
    for dial in turned:
        box.faults.set_value(f"data_gov.{dial}", 0)


async def asked(address, work, **how):
    """Run some work with a client; return what it returned and how long it waited for turns."""
    clock, url = FakeClock(), f"http://{HOST}"
    pace = LocalRateLimiter(Rate(calls=2, per=timedelta(seconds=10)), clock=clock)
    http = HttpClient(user_agent="Tests/1", sandbox=address)
    places = {"list_url": url, "download_url": url}
    portal = DataGov(http, clock=clock, lists=pace, downloads=pace, **places, **how)
    try:
        return await work(portal), clock.elapsed()
    finally:
        await http.close()


async def listed(box):
    files, _ = await asked(box.box.address, lambda portal: portal.list_files())
    return files


def scripted(told):
    """A portal that answers every path by a function of the path."""
    return RunningBox(companies=10, vendors={HOST: lambda *_: lambda question: told(question.path)})


async def test_all_parts_are_listed_with_one_release_and_the_check_says_so(box):
    files = await listed(box)
    assert {file.part for file in files} == PARTS
    assert {file.release for file in files} == {"2025-09-30"}
    assert len({file.id for file in files}) == 27
    health, _ = await asked(box.box.address, lambda portal: portal.check())
    assert (health.ok, health.detail) == (True, "27 files of release 2025-09-30")


async def test_a_file_is_downloaded_at_the_pace_of_the_portal(box, tmp_path):
    async def work(portal):
        [file] = [each for each in await portal.list_files() if each.part == "C"]
        await portal.download(file, to=tmp_path / "c.csv")

    _, waited = await asked(box.box.address, work)

    [file] = open_register_files(tmp_path / "c.csv", part="C")
    assert len(list(file.iter_rows())) > 5
    # A list, an initiation and two polls: each five seconds after the one before.
    assert timedelta(seconds=15) <= waited < timedelta(seconds=21)


async def test_a_portal_that_is_always_busy_is_left_for_later(box, dialled):
    dialled("status", 429)
    with pytest.raises(TransientError, match=f"{ATTEMPTS} times"):
        await listed(box)


async def test_a_portal_that_shuts_us_out_says_what_to_do(box, dialled):
    dialled("status", 403)
    with pytest.raises(ConfigError, match="stoker registry import"):
        await listed(box)
    health, _ = await asked(box.box.address, lambda portal: portal.check())
    assert not health.ok


@pytest.mark.parametrize("fault", ["busy", "error", "unavailable", "close", "cut_json", "garbage"])
async def test_answers_that_are_lost_or_cannot_be_read_are_asked_for_again(box, dialled, fault):
    dialled(f"fault.{fault}", 0.3)
    for _ in range(3):
        assert len(await listed(box)) == 27


@pytest.mark.parametrize(
    "said",
    [
        {"code": 0, "data": {}},
        {"code": 0, "data": {"collectionMetadata": {"lastUpdatedAt": "2025-12-31"}}},
        {"code": 0, "data": {"datasetMetadata": [{"datasetId": DATASET, "name": LISTED}]}},
        {
            "code": 0,
            "data": {
                "collectionMetadata": {"lastUpdatedAt": "2025-12-31T00:00:00+08:00"},
                "datasetMetadata": [
                    {"datasetId": "../../admin", "name": LISTED},
                    {"datasetId": DATASET, "name": "Something else ('Q')"},
                    {"datasetId": [DATASET], "name": LISTED},
                    "Q",
                    None,
                ],
            },
        },
        {"code": 7, "data": None},
    ],
)
async def test_a_list_that_makes_no_sense_is_refused(said):
    with scripted(lambda _: to_json_response(said)) as running, pytest.raises(PermanentError):
        await listed(running)


async def test_too_many_is_also_read_when_only_the_body_says_so():
    busy = to_json_response({"code": 24, "errorMsg": "too many"})
    with scripted(lambda _: busy) as running, pytest.raises(TransientError, match="24"):
        await listed(running)


async def downloads(answers, tmp_path):
    """Download from a portal that has these answers to polls, and a file."""
    given = iter(answers)

    def told(path):
        if path.endswith("/poll-download"):
            return to_json_response({"code": 0, "data": next(given)}, status=201)
        if path.endswith("/initiate-download"):
            return to_json_response({"code": 0, "data": {}}, status=201)
        return (
            Response(body=b"the file")
            if path == "/good"
            else Response(status=403, body=b"<Error/>")
        )

    file = PublishedFile(id=DATASET, part="Q", release="2025-12-31")
    with scripted(told) as running:
        await asked(running.box.address, lambda portal: portal.download(file, to=tmp_path / "f"))
    return (tmp_path / "f").read_bytes()


async def test_a_download_is_asked_after_until_it_is_ready(tmp_path):
    pending, ready = {"status": "DOWNLOAD_PENDING"}, {"status": "?", "url": f"http://{HOST}/good"}
    assert await downloads([pending] * 20 + [ready], tmp_path) == b"the file"


@pytest.mark.parametrize(
    ("polled", "says"),
    [
        ({"status": "DOWNLOAD_FAILED"}, "ready"),
        ({"url": f"http://{HOST}/expired?signature=s3cret"}, "403"),
        ({"url": "http://files.example.com/x"}, "https"),
        ({"url": "https://127.0.0.1/x"}, "public"),
        ({"url": "https://169.254.169.254/latest"}, "public"),
        ({"url": "file:///etc/passwd"}, "http"),
    ],
)
async def test_a_file_that_is_not_given_out_or_is_somewhere_else_is_refused(polled, says, tmp_path):
    with pytest.raises(PermanentError, match=says) as caught:
        await downloads([polled], tmp_path)
    assert "s3cret" not in str(caught.value)
    assert not (tmp_path / "f").exists()


async def test_a_download_that_never_gets_ready_is_left_for_later(tmp_path):
    with pytest.raises(TransientError, match="part Q"):
        await downloads([{"status": "DOWNLOAD_PENDING"}] * 100, tmp_path)


class Redirected:
    """A client whose calls all end at one address, as after redirects."""

    def __init__(self, url, body=b"x"):
        self._url, self._body = url, body

    async def send(self, call):
        call.body_sink(self._body)
        many = len(self._body)
        return ClientResponse(
            status=200, headers={}, body=b"", url=self._url, truncated=False, wire_bytes=many
        )


async def test_a_file_that_a_redirect_offers_without_encryption_is_not_taken(tmp_path):
    wanted, file = "https://files.example/f", tmp_path / "f"
    with pytest.raises(PermanentError, match="without https"):
        await fetch_file(Redirected("http://files.example/f"), wanted, to=file)
    assert list(tmp_path.iterdir()) == []
    await fetch_file(Redirected("https://store.example/f"), wanted, to=file)
    assert file.read_bytes() == b"x"
    assert list(tmp_path.iterdir()) == [file]


async def fetched(response, to, **how):
    """Fetch a file from a server that answers so."""
    with scripted(lambda _: response) as running:
        http = HttpClient(user_agent="Tests/1", sandbox=running.box.address)
        try:
            await fetch_file(http, f"http://{HOST}/f", to=to, **how)
        finally:
            await http.close()


async def test_a_file_that_fails_in_transit_leaves_nothing_and_can_be_fetched_again(tmp_path):
    whole = Response(body=b"the file")
    with pytest.raises(TransientError, match="nothing was stored"):
        await fetched(whole.replace_fields(lying_length=1_000), tmp_path / "f")
    assert list(tmp_path.iterdir()) == []
    await fetched(whole, tmp_path / "f")
    assert (tmp_path / "f").read_bytes() == b"the file"


@contextmanager
def files_of_at_most(many):
    """No file of this process grows beyond so many bytes, as on a disk without room."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (many, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


async def test_a_file_without_room_or_without_a_folder_is_for_later_and_nothing_is_left(tmp_path):
    with (
        files_of_at_most(4_000_000),
        pytest.raises(
            TransientError, match=r"cannot be stored in .* \(File too large\); make room"
        ),
    ):
        await fetched(Response(body=bytes(6_000_000)), tmp_path / "f")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(TransientError, match="No such file or directory"):
        await fetched(Response(body=b"x"), tmp_path / "none" / "f")


async def test_a_file_takes_no_more_memory_than_a_piece_of_it(tmp_path):
    pieces, piece = 480, b"row,of,a,file\n" * 4_700  # 30 MB
    tracemalloc.start()
    try:
        await fetched(Response(stream=(piece for _ in range(pieces))), tmp_path / "f")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (tmp_path / "f").stat().st_size == pieces * len(piece)
    assert peak < 10_000_000


@pytest.mark.parametrize("status", [403, 500])
async def test_what_comes_instead_of_a_file_is_neither_kept_nor_read_to_its_end(status, tmp_path):
    with pytest.raises((PermanentError, TransientError), match=str(status)):
        await fetched(
            Response(status=status, stream=(b"<Error/>" * 10_000 for _ in count())), tmp_path / "f"
        )
    assert list(tmp_path.iterdir()) == []


async def test_a_file_that_is_too_large_is_refused_and_nothing_of_it_stays(tmp_path):
    with pytest.raises(PermanentError, match="more than 1,000 bytes"):
        await fetched(Response(body=b"x" * 1_001), tmp_path / "f", most=1_000)
    assert list(tmp_path.iterdir()) == []
    await fetched(Response(body=b"x" * 1_000), tmp_path / "f", most=1_000)
    assert (tmp_path / "f").stat().st_size == 1_000


async def test_the_key_goes_along_in_a_header_and_not_to_where_the_file_is(tmp_path):
    seen = []

    def told(question):
        seen.append((question.path, question.headers.get("x-api-key")))
        if question.path.endswith("/poll-download"):
            return to_json_response({"code": 0, "data": {"url": f"http://{HOST}/good"}}, status=201)
        return to_json_response({"code": 0, "data": {}})

    file = PublishedFile(id=DATASET, part="Q", release="2025-12-31")
    with RunningBox(companies=10, vendors={HOST: lambda *_: told}) as running:
        await asked(
            running.box.address,
            lambda portal: portal.download(file, to=tmp_path / "f"),
            key="k3y-of-ours",
        )
    assert [key for _, key in seen] == ["k3y-of-ours", "k3y-of-ours", None]
