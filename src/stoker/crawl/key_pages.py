"""Choose the pages of a site that are worth a request, from its links and its sitemaps.

A sitemap is read as plain text, not as XML: nothing is expanded, included or looked up.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from html import unescape
from itertools import chain, islice

import idna
from publicsuffixlist import PublicSuffixList

from stoker.base.errors import PermanentError
from stoker.base.types import clean_text
from stoker.http.url import Url, parse_url, resolve_link

MAX_SITEMAP_BYTES = 5_000_000  # unpacked
MAX_SITEMAP_URLS = 20_000  # of all sitemaps of a site
_MAX_URL_LENGTH = 2_000
_LOC = re.compile(r"<loc>\s{0,100}(?:<!\[CDATA\[)?([^<\]]{1,2100})", re.IGNORECASE)
_IS_INDEX = re.compile(r"<sitemapindex[\s>]", re.IGNORECASE)
_ENTITIES = re.compile(r"<!(?:DOCTYPE|ENTITY)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sitemap:
    pages: tuple[str, ...] = ()
    maps: tuple[str, ...] = ()
    refused: str = ""  # why nothing was taken from it


def parse_sitemap(body: bytes, *, most: int = MAX_SITEMAP_URLS) -> Sitemap:
    """Return what a sitemap lists, at most `most` URLs. Never raises."""
    plain = _decompress(body)
    if plain is None:
        return Sitemap(refused="it could not be unpacked")
    text = plain[:MAX_SITEMAP_BYTES].decode("utf-8", "replace")
    if _ENTITIES.search(text[:10_000]):
        return Sitemap(refused="it declares entities, which no honest sitemap needs")
    if "<" not in text[:1_000]:
        listed = (line.strip() for line in text.splitlines()[:most])
        return Sitemap(pages=tuple(clean_text(line) for line in listed if _is_url(line)))
    urls: dict[str, None] = {}
    for match in _LOC.finditer(text):
        address = unescape(match[1].strip())
        if _is_url(address):
            urls[clean_text(address)] = None
            if len(urls) >= most:
                break
    if _IS_INDEX.search(text[:10_000]):
        return Sitemap(maps=tuple(urls))
    return Sitemap(pages=tuple(urls))


def _decompress(body: bytes) -> bytes | None:
    """Return the file decompressed, only as far as we would read it."""
    if not body.startswith(b"\x1f\x8b"):
        return body
    try:
        return zlib.decompressobj(31).decompress(body, MAX_SITEMAP_BYTES)
    except zlib.error:
        return None


def _is_url(text: str) -> bool:
    return text.startswith(("http://", "https://")) and len(text) <= _MAX_URL_LENGTH


MAX_DEPTH = 4  # segments of a path
_MAX_QUERY_LENGTH = 100

# In order of what they tell about a company. English, and words of the region's other languages.
KINDS: dict[str, tuple[str, ...]] = {
    "about": (
        *("about", "about-us", "aboutus", "company", "who-we-are", "our-story", "profile"),
        *("overview", "tentang", "tentang-kami", "关于", "关于我们", "關於我們", "会社概要"),
        *("회사소개", "gioi-thieu", "เกี่ยวกับเรา", "ueber-uns", "a-propos", "history", "mission"),
    ),
    "contact": (
        *("contact", "contact-us", "contactus", "contacts", "get-in-touch", "reach-us", "kontakt"),
        *("locations", "find-us", "hubungi", "hubungi-kami", "联系", "联系我们", "聯絡我們"),
        *("お問い合わせ", "문의", "lien-he", "ติดต่อเรา", "enquiry", "enquiries", "offices"),
    ),
    "team": (
        *("team", "our-team", "people", "our-people", "leadership", "management", "board"),
        *("directors", "founders", "staff", "meet-the-team", "团队", "團隊", "役員", "pasukan"),
    ),
    "careers": (
        *("careers", "career", "jobs", "job", "join-us", "vacancies", "work-with-us", "hiring"),
        *("openings", "join", "kerjaya", "karir", "招聘", "加入我们", "採用", "tuyen-dung"),
    ),
    "pricing": ("pricing", "prices", "plans", "price", "packages", "harga", "价格", "料金"),
    "products": (
        *("products", "product", "solutions", "platform", "features", "produk", "产品", "產品"),
        *("製品", "shop", "solution"),
    ),
    "services": (
        *("services", "service", "what-we-do", "expertise", "capabilities", "perkhidmatan"),
        *("layanan", "服务", "服務", "サービス", "industries"),
    ),
    "customers": ("customers", "clients", "case-studies", "portfolio", "projects", "our-work"),
    "legal": (
        *("imprint", "impressum", "legal", "legal-notice", "terms", "privacy", "privacy-policy"),
        *("terms-of-service", "terms-and-conditions", "disclaimer"),
    ),
    "news": (
        "news",
        "blog",
        "press",
        "media",
        "insights",
        "articles",
        "resources",
        "新闻",
        "berita",
    ),
}

_ORDER = {kind: place for place, kind in enumerate(KINDS)}
_BY_WORD = {word: kind for kind, words in KINDS.items() for word in words}
OTHER = "other"
HOME = "home"

_FILES = re.compile(
    r"\.(?:pdf|jpe?g|png|gif|webp|svg|ico|css|js|json|xml|rss|atom|zip|gz|rar|7z|exe|dmg|apk|mp[34]"
    r"|m4a|mov|avi|webm|docx?|xlsx?|pptx?|csv|txt|woff2?|ttf|eot|vcf|ics)$",
    re.IGNORECASE,
)

_ENDLESS = re.compile(
    r"/(?:calendar|events?|tag|tags|category|author|page|feed|search|cart|checkout|wp-json|wp-admin"
    r"|cgi-bin|login|signin|signup|register|account|logout|print|share)(?:/|$)"
    r"|/(?:19|20)[0-9]{2}(?:/|-)[0-9]{1,2}(?:/|-|$)",
    re.IGNORECASE,
)

_TRACKING = re.compile(
    r"(?:utm_[a-z]+|gclid|fbclid|msclkid|mc_[ce]id|ref|source|session|sid|lang)="
)

_TIDY = re.compile(r"(?:/index)?\.(?:html?|php|aspx?|jsp)$|/index$")
_WORD_GAPS = re.compile(r"[\s_/+.,!?:;|–—-]+")


@dataclass(frozen=True, slots=True)
class Link:
    href: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class KeyPage:
    url: str
    kind: str


def get_page_kind(path: str, text: str = "") -> str:
    """Return the kind of page that a path and the link's text suggest."""
    tidy = _TIDY.sub("", path.partition("?")[0].lower())
    segments = [segment for segment in tidy.split("/") if segment]
    for segment in reversed(segments):
        if segment in _BY_WORD:
            return _BY_WORD[segment]
    label = _WORD_GAPS.sub("-", text.strip().lower()).strip("-")
    if label in _BY_WORD:
        return _BY_WORD[label]
    for segment in reversed(segments):
        for part in segment.split("-"):
            if part in _BY_WORD:
                return _BY_WORD[part]
    return OTHER


def parse_page_url(base: Url, href: str) -> Url | None:
    """Return where a link leads if that is a page one could read, without what only counts clicks.

    None for mail, files, scripts, addresses without end and everything we do not visit.
    """
    if href.startswith(("#", "mailto:", "tel:", "javascript:", "data:", "sms:", "whatsapp:")):
        return None
    try:
        address = resolve_link(base, href)
    except PermanentError:
        return None
    path, _, query = address.target.partition("?")
    query = "&".join(part for part in query.split("&") if part and not _TRACKING.match(part))
    segments = [segment for segment in path.split("/") if segment]
    # A repeated segment marks relative links that grow for ever.
    if (
        len(query) > _MAX_QUERY_LENGTH
        or len(segments) > MAX_DEPTH
        or len(set(segments)) < len(segments)
        or _FILES.search(path)
        or _ENDLESS.search(path)
    ):
        return None
    target = path + (f"?{query}" if query else "")
    return Url(address.scheme, address.host, address.port, target)


_AUTHORITY = re.compile(r"(?:[a-zA-Z]{1,20}:)?[/\\]{2}([^/\\?#]*)")
_MAX_FOREIGN_HOSTS = 20  # of our site, not in ASCII, that are written as DNS knows them


def list_site_pages(base: Url, links: Iterable[Link], *, room: int) -> Iterator[tuple[Url, str]]:
    """Yield the pages of the base's own site that links lead to, with the links' texts.

    At most `room` characters in all.
    """
    site, foreign = get_site(base.host), set[str]()
    own_names = (site, _to_unicode(site))
    for link in links:
        # Before it is parsed: to write a host as DNS knows it is slow, and most are elsewhere.
        authority = _AUTHORITY.match(link.href)
        host = site if authority is None else authority[1].lower().partition(":")[0].rstrip(".")
        if not host.endswith(own_names) and not host.startswith("["):
            continue
        if not host.isascii():
            if len(foreign | {host}) > _MAX_FOREIGN_HOSTS:
                continue
            foreign.add(host)
        at = parse_page_url(base, link.href)
        if at is not None and get_site(at.host) == site:
            room -= len(at.target) + len(link.text)
            if room < 0:
                return
            yield at, link.text


def _to_unicode(host: str) -> str:
    try:
        return idna.decode(host)
    except idna.IDNAError:
        return host


@cache
def _load_suffixes() -> PublicSuffixList:
    return PublicSuffixList()


def get_site(host: str) -> str:
    """Return the registrable name of a host; a host without one is its own site."""
    return str(_load_suffixes().privatesuffix(host) or host)


def parse_site(url: str) -> str:
    """Return the site of a URL or host, the key its pages are stored under."""
    address = find_url(url if "://" in url[:12] else f"http://{url.strip()}")
    return url[:200] if address is None else get_site(address.host)


def find_url(text: str) -> Url | None:
    """Return what a text means as a URL, or None if we do not visit such."""
    try:
        return parse_url(text)
    except PermanentError:
        return None


def list_sitemaps(body: bytes, *, most: int) -> tuple[str, ...]:
    """Return the sitemaps that an index lists, that of pages before those of posts and products."""
    return tuple(sorted(parse_sitemap(body).maps, key=lambda at: "page" not in at)[:most])


def choose_pages(
    home: Url,
    links: Sequence[tuple[Url, str]],
    sitemaps: Sequence[bytes],
    *,
    most: int,
    not_again: Sequence[str],
) -> list[KeyPage]:
    """Return the pages of a site worth a request, from its home page's links and its sitemaps."""
    listed = (Link(url) for body in sitemaps for url in parse_sitemap(body).pages)
    pages = list_site_pages(home, islice(listed, MAX_SITEMAP_URLS), room=MAX_SITEMAP_BYTES)
    return choose_key_pages(chain(links, pages), most=most, not_again=not_again)


def choose_key_pages(
    links: Iterable[tuple[Url, str]], *, most: int, not_again: Iterable[str] = ()
) -> list[KeyPage]:
    """Return at most `most` pages in the order of their value.

    Each kind once first; then unknown pages and further pages of a kind.
    """
    taken = {_normalize_url(url) for url in not_again}
    ranked: list[tuple[tuple[int, int, int, int, int], KeyPage]] = []
    times: dict[str, int] = {}
    options: list[tuple[str, bool, int, int, Url]] = []
    for place, (address, text) in enumerate(links):
        same = _normalize_url(str(address))
        if same in taken:
            continue
        taken.add(same)
        kind = get_page_kind(address.target, text)
        depth = address.target.count("/")
        options.append((kind, "?" in address.target, depth, place, address))
    options.sort(key=lambda option: (option[1], option[2], option[3]))
    for kind, asked, depth, place, address in options:
        nth = times[kind] = times.get(kind, 0) + 1
        # One page of each kind comes before unknown pages and repeats.
        turn = nth - 1 if kind != OTHER else nth + 1
        order = _ORDER.get(kind, len(_ORDER))
        page = KeyPage(url=str(address), kind=kind)
        ranked.append(((turn, order, int(asked), depth, place), page))
    ranked.sort(key=lambda one: one[0])
    return [page for _, page in ranked[:most]]


def _normalize_url(url: str) -> str:
    """Return what two URLs of one page have in common."""
    rest = url.partition("://")[2].lower().removeprefix("www.")
    path = rest.partition("?")[0].rstrip("/")
    return _TIDY.sub("", path)
