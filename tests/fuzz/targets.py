"""Everything that reads strangers' bytes, in one table: how, from what seeds, what it may raise.

A target breaks when it raises anything else than it may, or without a word, or returns a text that
no store could keep.
"""

from __future__ import annotations

import asyncio
import base64
import json
import math
import tempfile
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from stoker.base.errors import ConfigError, PermanentError, StokerError, UncertainError
from stoker.base.strict_json import MAX_DEPTH, MAX_DIGITS, parse_json
from stoker.base.types import TenantId, is_storable
from stoker.config.sources import read_env_file
from stoker.crawl import extract
from stoker.crawl.extract import extract_facts
from stoker.crawl.key_pages import choose_pages, list_sitemaps
from stoker.crawl.model import Excerpt
from stoker.crawl.robots import parse_robots
from stoker.crm.model import PARTNER
from stoker.crm.odoo import Odoo
from stoker.crm.odoo_protocols import parse_response
from stoker.discovery.boards import BOARD_APIS, Board, read_board_page
from stoker.discovery.feeds import Feeds, parse_feed
from stoker.discovery.files import read_job_file
from stoker.discovery.model import parse_postings
from stoker.files.columns import decode_columns, encode_columns
from stoker.heat.service import read_signal_rows
from stoker.heat.signals import parse_signal
from stoker.http.client import Response
from stoker.http.response import Outcome, ResponseParser
from stoker.http.url import parse_url, resolve_link
from stoker.registry.acra import RejectedRow
from stoker.registry.files import open_register_files, read_industry_codes
from stoker.runs.json_folders import read_index, read_record, read_request
from stoker.sandbox.http import Request
from stoker.sandbox.server import Sandbox
from stoker.settings.load import load_settings
from stoker.touches.profiles import read_profiles_file
from stoker.touches.state_file import StateFile
from stoker.vendors.extraction import ExtractionQuery, parse_model_answer
from stoker.vendors.lusha import LushaPeople, LushaReveal, PeopleQuery, RevealQuery, build_lusha_api
from stoker.vendors.openai import OpenAiExtraction, OpenAiModel, Prices, build_openai_api
from stoker.vendors.tavily import SearchQuery, TavilySearch, build_tavily_api
from stoker.vendors.zerobounce import EmailBatch, ZeroBounce

NOW = datetime(2026, 11, 18, 6, tzinfo=UTC)
ZONE = ZoneInfo("Asia/Singapore")
HOME = parse_url("http://acme.test/")
SOON = timedelta(seconds=5)
CORPUS = Path(__file__).parent / "corpus"
Read = Callable[[bytes], object]
Ask = Callable[[bytes], Coroutine[Any, Any, object]]


@dataclass(frozen=True)
class Target:
    """One reader of strangers' bytes."""

    name: str
    read: Read
    seeds: Callable[[], Iterable[bytes]]
    raises: tuple[type[Exception], ...] = ()  # what it may raise; nothing by default
    words: tuple[bytes, ...] = ()  # what its format is made of, for mutations
    share: float = 1.0  # of the usual number of mutations: less where one takes long

    def find_break(self, data: bytes) -> str:
        """Return how the bytes break the reader; empty when they do not."""
        try:
            return find_unstorable(self.read(data))
        except self.raises as error:
            return "" if str(error).strip() else f"{type(error).__name__} without a word"
        except Exception as error:  # noqa: BLE001  # whatever it is, it is what we look for
            return f"{type(error).__name__}: {error}"

    def list_seeds(self) -> list[bytes]:
        """Return what the search starts from: ours, and what earlier searches found."""
        path = CORPUS / f"{self.name}.txt"
        kept = path.read_text().split() if path.exists() else []
        return [*self.seeds(), *map(base64.b64decode, kept)]


def find_unstorable(value: object) -> str:
    """Return what is wrong with the first part of a value that no store could keep, if any."""
    if isinstance(value, str):
        return "" if is_storable(value) else f"a text no store can keep: {value[:40]!r}"
    if isinstance(value, float):
        return "" if math.isfinite(value) else "a number that is none"
    if isinstance(value, Mapping):
        inner: Iterable[object] = [*value, *value.values()]
    elif is_dataclass(value):
        inner = [getattr(value, each.name) for each in fields(value)]
    else:
        inner = value if isinstance(value, list | tuple) else ()
    return next((wrong for each in inner if (wrong := find_unstorable(each))), "")


# A client whose one answer is what a stranger sent, and the sandbox's answers to start from.


class Answering:
    """Stands where the HTTP client does: every call is answered with these bytes.

    The first line may be a status: `429` and a line end.
    """

    def __init__(self, data: bytes) -> None:
        status, _, body = data.partition(b"\n")
        known = status.isdigit() and len(status) == 3 and status >= b"200"
        self._status, self._body = (int(status), body) if known else (200, data)

    async def send(self, call: Any) -> Response:
        body = self._body[: call.max_bytes]
        return Response(
            status=self._status,
            headers={"content-type": "application/json", "x-minute-requests-left": "7"},
            body=body,
            url=call.url,
            truncated=len(body) < len(self._body),
            wire_bytes=len(self._body),
        )


def _run(work: Coroutine[Any, Any, object]) -> object:
    return asyncio.run(work)


def _now(ask: Ask) -> Read:
    return lambda data: _run(ask(data))


@cache
def _sandbox() -> Sandbox:
    return Sandbox(companies=300)


def _serve(host: str, path: str, body: object = None, **headers: str) -> bytes:
    """Return what the sandbox answers, as bytes."""
    answered = _sandbox().answer(
        Request(
            method="GET" if body is None else "POST",
            host=host,
            path=path,
            headers=headers,
            body=b"" if body is None else json.dumps(body).encode(),
        )
    )
    return answered.body or b"".join(answered.stream or ())


def _company(nth: int = 5) -> Any:
    return _sandbox().world.get_company(nth)


# Readers.


def _read_http(data: bytes) -> object:
    """Feed an answer in two pieces, cut where its length says, and close."""
    parser = ResponseParser(method="GET", most=10_000)
    cut = len(data) // 3
    parser.feed(data[:cut])
    parser.feed(data[cut:])
    parser.feed_eof()
    body = parser.body.get_body() if parser.outcome is Outcome.COMPLETE and parser.body else b""
    assert parser.outcome is not None
    assert len(body) <= 10_000
    return [parser.problem, parser.status]


def _read_url(data: bytes) -> object:
    url = parse_url(data.decode("utf-8", "replace"))
    assert parse_url(str(url)) == url
    assert url.host.isascii()
    return [str(url), str(resolve_link(HOME, data.decode("utf-8", "replace")))]


def read_page(data: bytes) -> object:
    """Do with a page everything that a visit does."""
    reading = extract.read_page(data, content_type="text/html", url=str(HOME))
    excerpt = Excerpt(url=str(HOME), text=reading.text)
    return [
        reading,
        extract_facts([reading.facts], excerpts=[excerpt]),
        choose_pages(HOME, reading.links, (), most=6, not_again=()),
    ]


def _read_linked_data(data: bytes) -> object:
    return read_page(b'<script type="application/ld+json">' + data + b"</script>")


def read_robots(data: bytes) -> object:
    """Parse a robots.txt and ask it what a visit asks."""
    rules = parse_robots(data, product="stoker")
    paths = ("", "about/us", "a%2fb?c=d", "index.html", "é")
    return [rules.sitemaps, [rules.allows(f"http://acme.test/{path}") for path in paths]]


def read_sitemap(data: bytes) -> object:
    """List a sitemap's pages and choose among them."""
    return [list_sitemaps(data, most=5), choose_pages(HOME, (), [data], most=6, not_again=())]


def read_feed_here(data: bytes) -> object:
    """Read a feed as its worker does, in this process."""
    title, raws, _ = parse_feed(data)
    return parse_postings("feed", raws, company=title)


async def read_feed(data: bytes) -> object:
    return await Feeds(Answering(data)).read_postings("http://acme.test/feed")


def read_board_here(name: str) -> Read:
    """Return a reader of a job board's answers, in this process."""
    return lambda data: read_board_page(name, data, company="Acme", first=0)


async def read_board(data: bytes) -> object:
    board = Board(Answering(data), BOARD_APIS["greenhouse"], base_url="http://greenhouse.test")
    return await board.read_postings("acme")


def read_json(data: bytes) -> object:
    """Read strict JSON; nothing too deep and no endless number comes out."""
    value = parse_json(data)

    def check(value: object, depth: int) -> None:
        assert depth <= MAX_DEPTH
        assert not isinstance(value, int) or abs(value) < 10**MAX_DIGITS
        for each in (
            value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        ):
            check(each, depth + 1)

    check(value, 0)
    return value


async def read_search(data: bytes) -> object:
    api = build_tavily_api(Answering(data), key="tvly-abcd", base_url="http://tavily.test")
    return await TavilySearch(api).ask(SearchQuery(query="anvils"), key="k")


async def read_people(data: bytes) -> object:
    api = build_lusha_api(Answering(data), key="lusha-abcd", base_url="http://lusha.test")
    return await LushaPeople(api).ask(PeopleQuery(domain="acme.test"), key="k")


async def read_reveal(data: bytes) -> object:
    api = build_lusha_api(Answering(data), key="lusha-abcd", base_url="http://lusha.test")
    return await LushaReveal(api).ask(RevealQuery(ids=("ct-5-0",)), key="k")


async def read_verdicts(data: bytes) -> object:
    vendor = ZeroBounce(
        Answering(data), key="zb-abcd", base_url="http://zerobounce.test", deadline=SOON
    )
    return await vendor.ask(EmailBatch(emails=("info@acme.test", "mei@acme.test")), key="k")


QUESTION = ExtractionQuery(
    domain="acme.test",
    excerpts=(
        Excerpt(
            url="http://acme.test/",
            text="Acme makes anvils in Singapore since 1974. We are 80 people. Mei Tan, Managing "
            "Director. Write to info@acme.test or call +65 6123 4567. UEN 200900001A. " * 20,
        ),
    ),
)


async def read_completion(data: bytes) -> object:
    prices = Prices(input=Decimal("0.20"), cached=Decimal("0.02"), output=Decimal("1.20"))
    api = build_openai_api(
        Answering(data), key="sk-abcd", base_url="http://openai.test", deadline=SOON
    )
    model = OpenAiModel(api, model="gpt-5.6-luna", prices=prices)
    return await OpenAiExtraction(model).ask(QUESTION, key="k")


def read_claims(data: bytes) -> object:
    """Check the claims in a model's words, as a worker does."""
    return parse_model_answer(data.decode("utf-8", "replace"), QUESTION, cut=len(data) % 2 > 0)


async def read_crm(data: bytes) -> object:
    crm = Odoo(
        Answering(data), url="http://odoo.test", database="acme", key="odoo-acme", protocol="json2"
    )
    return await crm.search(PARTNER, [], fields=["name"], limit=3)


@cache
def _room() -> Path:
    return Path(tempfile.mkdtemp(prefix="stoker-fuzz-"))


def _file(name: str, read: Callable[[Path], object]) -> Read:
    """Return a reader of a file of this name."""

    def read_bytes(data: bytes) -> object:
        path = _room() / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
        return read(path)

    return read_bytes


def _read_register(path: Path) -> object:
    rows = [row for file in open_register_files(path) for row in file.iter_rows()]
    return [row.reason if isinstance(row, RejectedRow) else row.entity for row in rows]


def _read_signals(path: Path) -> object:
    return [
        row.wrong or parse_signal(row.cells, zone=ZONE, now=NOW) for row in read_signal_rows(path)
    ]


def _read_postings(path: Path) -> object:
    async def read() -> object:
        return [each async for each in read_job_file(path, company="Acme")]

    return _run(read())


def _read_profiles(path: Path) -> object:
    return _run(read_profiles_file(path, zone=ZONE, now=NOW))


def _read_state(path: Path) -> object:
    for left in path.parent.glob("state.json.*"):
        left.unlink()
    file = StateFile(path, tenant=TenantId("acme"), now=lambda: NOW, report=lambda _: None)
    return _run(file.read(lambda tx: list(tx.query("SELECT url, name FROM touch_profiles"))))


def _read_settings(path: Path) -> object:
    load_settings(file=path, env_file=None, environment={}, flags={})
    return None


def _read_env(path: Path) -> object:
    read_env_file(path)
    return None


def _read_plan(data: bytes) -> object:
    decode_columns([data])
    return None


# Seeds.

_CSV_WORDS = (
    b",",
    b'"',
    b"\n",
    b"\r\n",
    b'""',
    b"na",
    b"\xef\xbb\xbf",
    b"\0",
    b"2026-11-16",
    b"-1",
)
_JSON_WORDS = (
    b"{",
    b"}",
    b"[",
    b"]",
    b'"',
    b":",
    b",",
    b"null",
    b"1e999",
    b"\\ud800",
    b"-0",
    b"NaN",
)
_XML_WORDS = (b"<", b"/>", b"&amp;", b"&#0;", b"<![CDATA[", b"<!DOCTYPE x>", b"xmlns:a='b'", b"]]>")
_HTML_WORDS = (
    *(b"<a href=", b"<p>", b"</p>", b"<!--", b"-->", b"<title>", b"<script>", b"mailto:", b"tel:"),
    *(b"&#233;", b"a@b.com", b" (at) ", b"+65 6123 4567", b"\xe9", b"<table>", b"hidden", b"\0"),
    *(b"<meta charset=shift_jis>", b"itemscope ", b"itemprop=name", b"application/ld+json"),
)
_MOVES = (StokerError,)


def _vendor_seeds(host: str, path: str, body: object, **headers: str) -> Callable[[], list[bytes]]:
    def seeds() -> list[bytes]:
        answered = _serve(host, path, body, **headers)
        return [answered, b"429\n{}", b"500\n" + answered, b"200\n[]", b'{"error": {"code": "x"}}']

    return seeds


CLAIMS = (
    '{"findings":[{"field":"email","value":"info@acme.test","evidence":"info@acme.test"}]}',
    '{"findings":[{"field":"person","value":"Mei Tan | CEO","evidence":"Mei Tan"}]}',
    '{"findings":[{"field":"employees","value":"80","evidence":"We are 80 people"}]}',
    '{"findings":[{"field":"phone","value":"+65 6123 4567","evidence":"call +65 6123 4567"',
)


def _completion(text: str) -> bytes:
    message = {"type": "message", "content": [{"type": "output_text", "text": text}]}
    usage = {"input_tokens": 9, "output_tokens": 9}
    return json.dumps({"status": "completed", "usage": usage, "output": [message]}).encode()


def _board_seeds(name: str, path: str) -> list[bytes]:
    on_board = (each for nth in range(300) if (each := _company(nth)).board == name)
    answers = [_serve(f"{name}.test", path.format(next(on_board).slug))[:5_000] for _ in range(3)]
    return [*answers, b"429\n", b"[]"]


def _page_seeds() -> Iterator[bytes]:
    for nth in (5, 11, 23):
        company = _company(nth)
        for path in ("/", "/about", "/contact"):
            yield _serve(company.domain, path)[:6_000]
    yield b"<p>info (at) acme (dot) com, +65 6123 4567, UEN 200900001A, Mei Tan, Director"


def _state_seeds() -> Iterator[bytes]:
    path = _room() / "seed.json"
    path.unlink(missing_ok=True)
    file = StateFile(path, tenant=TenantId("acme"), now=lambda: NOW, report=lambda _: None)
    _run(file.write(lambda tx: None))
    yield path.read_bytes()
    yield b'{"format": 1}'


def _run_seeds() -> Iterator[bytes]:
    yield b'{"format":1,"runs":{"r":{"kind":"nightly","state":"DONE"}}}'
    yield b'{"format":1,"by":"me","at":"2026-11-16T00:00:00+00:00"}'
    yield b'{"format":1,"by":"\\ud800","at":"2026-11-16T00:00:00+00:00"}'
    yield (
        b'{"format":1,"kind":"nightly","key":{"at":"2026-11-16T00:00:00+00:00","epoch":1},'
        b'"state":"DONE","artifacts":{"jobs":{"rows":1,"chain":"x"}}}'
    )


def _plan_seeds() -> list[bytes]:
    columns = {"name": ["a", "é"], "worth": np.array([0.5, 1.5]), "tier": np.array([1, 2], "u1")}
    return encode_columns(columns)


def _register_seeds() -> list[bytes]:
    rows = _serve("sandbox.test", "/registry.csv")
    lines = rows.splitlines(keepends=True)
    return [b"".join(lines[:6]), lines[0], lines[0] + b'"' + lines[1]]


TABLES = (ConfigError, PermanentError)
TARGETS = (
    Target(
        "http",
        _read_http,
        lambda: [
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 301 Moved\r\nLocation: /x\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n\x1f\x8b\x08",
        ],
        raises=(UncertainError,),  # for a body that does not decompress
        words=(
            b"\r\n",
            b"\r\n\r\n",
            b"Content-Length: ",
            b"chunked",
            b"0\r\n\r\n",
            b"gzip",
            b"204",
        ),
    ),
    Target(
        "url",
        _read_url,
        lambda: [
            b"https://user@b\xc3\xbccher.example:8080/a/../b?c=d#e",
            b"http://[::1]/",
            b"//x/y",
        ],
        raises=(PermanentError,),
        words=(
            b"http://",
            b"@",
            b"%2e",
            b"[::",
            b"]",
            b"\\",
            b"..",
            b"xn--",
            b"\xef\xbc\x8e",
            b":80",
        ),
    ),
    Target("page", read_page, _page_seeds, words=_HTML_WORDS, share=0.5),
    Target(
        "linked_data",
        _read_linked_data,
        lambda: [
            b'{"@type":"Organization","name":"Acme","email":"a@b.com","founder":{"@id":"#x"}}',
            b'{"@graph":[{"@id":"#x","@type":"Person","name":"Mei Tan","jobTitle":"CEO"}]}',
        ],
        words=(*_JSON_WORDS, b'"@type"', b'"@id"', b'"@graph"', b"</script>"),
    ),
    Target(
        "robots",
        read_robots,
        lambda: [_serve(_company().domain, "/robots.txt"), b"User-agent: stoker\nAllow: /a*b$\n"],
        words=(
            b"User-agent: *\n",
            b"Disallow: ",
            b"Allow: ",
            b"*",
            b"$",
            b"%41",
            b"Crawl-delay: 1e9\n",
        ),
    ),
    Target(
        "sitemap",
        read_sitemap,
        lambda: [
            b"<urlset><url><loc>http://acme.test/about</loc></url></urlset>",
            b"<sitemapindex><sitemap><loc>http://acme.test/a.xml</loc></sitemap></sitemapindex>",
            b"http://acme.test/a\nhttp://acme.test/b\n",
        ],
        words=(*_XML_WORDS, b"<loc>", b"</loc>", b"http://\xc3\xa9.test/", b"\x1f\x8b"),
    ),
    Target(
        "feed",
        read_feed_here,
        lambda: [
            _serve("feeds.test", f"/{_company().slug}/jobs.{kind}") for kind in ("rss", "atom")
        ],
        raises=_MOVES,
        words=(*_XML_WORDS, b"<item>", b"</item>", b"<entry>", b"<pubDate>", b"<link href='x'/>"),
    ),
    *(
        Target(
            name,
            read_board_here(name),
            lambda name=name, path=path: _board_seeds(name, path),
            raises=_MOVES,
            words=_JSON_WORDS,
        )
        for name, path in {
            "greenhouse": "/v1/boards/{}/jobs",
            "lever": "/v0/postings/{}",
            "ashby": "/posting-api/job-board/{}",
        }.items()
    ),
    Target(
        "json",
        read_json,
        lambda: [
            b'{"a":[1,2.5,"\\u00e9",null,true]}',
            b"[" * 70 + b"]" * 70,
            b"[1e999]",
            b"9" * 50,
        ],
        raises=(PermanentError,),
        words=_JSON_WORDS,
    ),
    Target(
        "search",
        _now(read_search),
        _vendor_seeds("tavily.test", "/search", {"query": "x"}, authorization="Bearer tvly-abcd"),
        raises=_MOVES,
        words=_JSON_WORDS,
    ),
    Target(
        "people",
        _now(read_people),
        lambda: _vendor_seeds(
            "lusha.test",
            "/v3/contacts/prospecting",
            {"filters": {"companies": {"include": {"domains": [_company().domain]}}}},
            api_key="lusha-abcd",
        )(),
        raises=_MOVES,
        words=_JSON_WORDS,
    ),
    Target(
        "reveal",
        _now(read_reveal),
        _vendor_seeds(
            "lusha.test", "/v3/contacts/enrich", {"ids": ["ct-5-0"]}, api_key="lusha-abcd"
        ),
        raises=_MOVES,
        words=_JSON_WORDS,
    ),
    Target(
        "verdicts",
        _now(read_verdicts),
        _vendor_seeds(
            "zerobounce.test",
            "/v2/validatebatch",
            {"api_key": "zb-abcd", "email_batch": [{"email_address": "info@acme.test"}]},
        ),
        raises=_MOVES,
        words=_JSON_WORDS,
    ),
    Target(
        "completion",
        _now(read_completion),
        lambda: [_completion(text) for text in CLAIMS],
        raises=_MOVES,
        words=_JSON_WORDS,
        share=0.1,
    ),
    Target(
        "claims",
        read_claims,
        lambda: [text.encode() for text in CLAIMS],
        words=(*_JSON_WORDS, b"email", b"employees", b"country", b"website", b"founded", b"\\n"),
    ),
    Target(
        "crm_json",
        _now(read_crm),
        lambda: [b'[{"id":1,"name":"Acme"}]', b'500\n{"name":"builtins.ValueError","message":"x"}'],
        raises=_MOVES,
        words=_JSON_WORDS,
    ),
    Target(
        "crm_xml",
        parse_response,
        lambda: [
            b"<?xml version='1.0'?><methodResponse><params><param><value><array><data><value>"
            b"<struct><member><name>id</name><value><int>1</int></value></member></struct></value></data>"
            b"</array></value></param></params></methodResponse>",
            b"<methodResponse><fault><value><struct><member><name>faultCode</name><value><int>1"
            b"</int></value></member></struct></value></fault></methodResponse>",
        ],
        raises=(ValueError, StokerError),
        words=(*_XML_WORDS, b"<value>", b"</value>", b"<int>", b"<struct>", b"<nil/>", b"<double>"),
    ),
    Target(
        "register", _file("r.csv", _read_register), _register_seeds, TABLES, _CSV_WORDS, share=0.5
    ),
    Target(
        "industry_codes",
        _file("c.csv", lambda path: read_industry_codes(path, version="2020")),
        lambda: [b"SSIC 2020,SSIC 2020 Title\n62011,Software\n0111,Farming\n"],
        TABLES,
        _CSV_WORDS,
    ),
    Target(
        "signals",
        _file("s.csv", _read_signals),
        lambda: [b"account,at,strength\n200900001A,2026-11-16T08:30:00Z,0.5\n", b"account,at\n,\n"],
        TABLES,
        _CSV_WORDS,
    ),
    Target(
        "signal_lines",
        _file("s.jsonl", _read_signals),
        lambda: [b'{"account":"200900001A","at":"2026-11-16","strength":0.5}\n'],
        TABLES,
        _JSON_WORDS,
    ),
    Target(
        "profiles",
        _file("p.csv", _read_profiles),
        lambda: [b"url,name,status\nhttps://people.test/1,Mei,active\n", b"Profile URL\nx\n"],
        TABLES,
        _CSV_WORDS,
        share=0.5,
    ),
    Target(
        "postings",
        _file("j.csv", _read_postings),
        lambda: [b"url,title,posted\nhttp://acme.test/1,Smith,2026-11-16\n"],
        TABLES,
        _CSV_WORDS,
        share=0.5,
    ),
    Target(
        "posting_lines",
        _file("j.jsonl", _read_postings),
        lambda: [b'{"url":"http://acme.test/1","title":"Smith","posted":1763251200}\n'],
        TABLES,
        _JSON_WORDS,
        share=0.5,
    ),
    Target(
        "state", _file("state.json", _read_state), _state_seeds, (ConfigError,), _JSON_WORDS, 0.1
    ),
    Target(
        "run_record",
        _file("summary.json", lambda path: [read_record(path)]),
        _run_seeds,
        (ConfigError,),
        _JSON_WORDS,
    ),
    Target(
        "cancel_request",
        _file("cancel.json", lambda path: [read_request(path)]),
        _run_seeds,
        (ConfigError,),
        _JSON_WORDS,
    ),
    Target(
        "run_index",
        _file("index.json", lambda path: bool(read_index(path))),
        _run_seeds,
        (ConfigError,),
        _JSON_WORDS,
    ),
    Target(
        "plan",
        _read_plan,
        _plan_seeds,
        (PermanentError,),
        (b"\0\0\0\1", b'"rows":', b"<f8", b"|b1"),
    ),
    Target(
        "settings",
        _file("stoker.toml", _read_settings),
        lambda: [
            b'[crawl]\ngap_s = 2\n[tenants.acme]\nname = "Acme"\n',
            b'caps.lusha_credits = 5\nscheduling.timezone = "Asia/Singapore"\n',
            b"crawl.gap_s = " + b"[" * 5_000,
            b"a" + b".a" * 3_000 + b" = 1",
            b"crawl.gap_s = " + b"9" * 400,
            b"crawl.gap_s = " + b"9" * 6_000,
            b"caps.lusha_credits = 0x" + b"f" * 5_000,
        ],
        (ConfigError,),
        (
            b"[",
            b"]",
            b"=",
            b'"',
            b"'''",
            b"\n",
            b".",
            b"[[",
            b"1e999",
            b"2026-11-16",
            b"#",
            b"{",
            b"}",
        ),
        share=0.5,
    ),
    Target(
        "env",
        _file(".env", _read_env),
        lambda: [b"STOKER_KEYS_TAVILY=tvly-1\n# x\nexport A='b\nc'\n"],
        (ConfigError,),
        (b"=", b"'", b'"', b"\n", b"#", b"export ", b"${A}", b"\0"),
    ),
)
