"""Find a company's own website among search results, and judge whose it is.

A register lists names, not sites. A name in a host makes a site worth reading, and proves nothing:
anyone can register a name. A site that a person or the register named is theirs to answer for. One
that a search found is confirmed by a page elsewhere that names the company's register number or
postal code together with the site, or by its own pages when they show either. The register is
public, so own pages prove no more than that the site speaks of this company and of no other:
look-alikes, parked names and careless squatters are kept out, a deliberate copy is not.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from stoker.accounts.facts import Fact, FactField
from stoker.accounts.model import Company, CompanyRecord, SiteOwner, SiteVerdict
from stoker.base.errors import PermanentError
from stoker.http.url import parse_url


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchHit:
    url: str
    title: str
    text: str
    score: float = 0.0  # 0 to 1, the engine's own


_WORDS = re.compile(r"[^\W_]+")

_GENERIC_WORDS = frozenset(  # words that tell one company from another as little as its legal form
    (
        "pte", "ltd", "limited", "llp", "llc", "lp", "inc", "co", "company", "corp", "corporation",
        "private", "public", "the", "and", "of", "singapore", "branch",
        "sg",
    )
)  # fmt: skip

_SHARED_SITES = (  # directories and networks that list all companies
    "linkedin", "facebook", "instagram", "twitter", "youtube", "tiktok", "wikipedia", "glassdoor",
    "indeed", "jobstreet", "crunchbase", "bloomberg", "sgpbusiness", "recordowl", "companieshouse",
    "opencorporates", "yellowpages", "directory", "carousell", "google", "github", "medium",
)  # fmt: skip

_MIN_CONFIDENCE = 0.6
_MIN_WORD_LENGTH = 4  # letters; a shorter host's name says too little

_MIN_VALUE_LENGTH = 6  # characters; a shorter number occurs by accident

_REGISTER_FIELDS = (FactField.UEN, FactField.POSTAL_CODE, FactField.ADDRESS)

_MAX_PHONES = 5  # of a site, that are searched for elsewhere

_PHONE_DIGITS = 8  # of a number without its country


def get_significant_words(name: str) -> tuple[str, ...]:
    """Return the words of a company's name that tell it from others, in small letters."""
    words = [word.casefold() for word in _WORDS.findall(name)]
    telling = tuple(word for word in words if word not in _GENERIC_WORDS)
    return telling or tuple(words)


def find_company_website(name: str, pages: Iterable[SearchHit]) -> str | None:
    """Return the URL of the site that is most likely the company's own, or None."""
    best: tuple[float, str] | None = None
    for page in pages:
        try:
            address = parse_url(page.url)
        except PermanentError:
            continue
        sure = _score_host(get_significant_words(name), address.host, page.title)
        if sure >= _MIN_CONFIDENCE and (best is None or sure > best[0]):
            best = (sure, f"{address.scheme}://{address.netloc}/")
    return best[1] if best else None


def mentions_company(name: str, page: SearchHit) -> bool:
    """Return whether a page contains every significant word of the company's name."""
    text = f"{page.title} {page.text}".casefold()
    words = set(_WORDS.findall(text))
    return all(word in words for word in get_significant_words(name))


def judge_site(
    before: CompanyRecord,
    website: str,
    *,
    facts: Sequence[Fact],
    pages: Mapping[str, str],
    hits: Sequence[SearchHit],
    unchanged: Collection[str] = (),
) -> SiteVerdict | None:
    """Return whose a website is, given what was known before this lookup; None: nothing to judge.

    `facts` are all that hold now, `pages` the texts of the site's pages as far as they were read
    this time, by URL, `unchanged` the URLs of those that are as they were, and `hits` what a search
    found. A confirmed site whose pages were seen stays confirmed if the page that proved it is
    unchanged or still has the proof, or if another one is found.
    """
    host, known, company = get_host(website), before.site, before.company
    if not host:
        tied = {hit.url for hit in hits if _names_company(hit, company)}
        if known is not None or all(fact.source in tied for fact in facts):
            return known
        return SiteVerdict(host="", owner=SiteOwner.PROBABLE)
    if host == get_host(company.website) and _was_given(before, host):
        return SiteVerdict(host=host, owner=SiteOwner.GIVEN)
    own = [fact for fact in facts if is_on_site(fact.source, host)]
    if other := find_other_uen(company.id, own):
        proof = f"its pages show the register number {other}, of another company"
        return SiteVerdict(host=host, owner=SiteOwner.PROBABLE, proof=proof)
    known = known if known is not None and known.host == host else None
    if known is not None and _still_holds(known, company, pages, unchanged, hits):
        return replace(known, owner=SiteOwner.CONFIRMED)
    texts = {hit.url: hit.text for hit in hits if is_on_site(hit.url, host)} | dict(pages)
    if pages or unchanged:  # what a page said that was not seen again proves nothing now
        own = [fact for fact in own if fact.source in texts or fact.source in unchanged]
    found = _find_proof_elsewhere(company, host, own, hits) or _find_own_proof(company, own, texts)
    if found is not None:
        proof, source = found
        return SiteVerdict(host=host, owner=SiteOwner.CONFIRMED, proof=proof, source=source)
    if known is not None and is_on_site(known.source, host) and known.source not in texts:
        # The page may only have failed this time: it counts again once it is seen unchanged.
        return replace(known, owner=SiteOwner.PROBABLE)
    return SiteVerdict(host=host, owner=SiteOwner.PROBABLE)


def format_site(site: SiteVerdict) -> str:
    """Return a verdict in words: `confirmed: its pages show the register number, http://…`."""
    if site.owner is SiteOwner.GIVEN:
        return "given by a person or the register"
    if site.owner is SiteOwner.PROBABLE and site.source:
        return f"probable: the page that confirmed it was not seen again, {site.source}"
    if site.owner is SiteOwner.PROBABLE:
        by_name = "found by a search for the name; nothing seen ties it to the company"
        return f"probable: {site.proof or (by_name if site.host else 'none of its own was found')}"
    return f"confirmed: {site.proof}, {site.source}"


def _was_given(before: CompanyRecord, host: str) -> bool:
    """Return whether no lookup of ours found this site: a person or the register named it."""
    if before.site is None:
        return before.looked_at is None
    return before.site.owner is SiteOwner.GIVEN or before.site.host != host


def _still_holds(
    known: SiteVerdict,
    company: Company,
    pages: Mapping[str, str],
    unchanged: Collection[str],
    hits: Sequence[SearchHit],
) -> bool:
    """Return whether the page that once confirmed a site does so still.

    It was read again and shows it, or is unchanged, or nothing of its site was seen this time. A
    domain that expired and went to a stranger has other pages.
    """
    if not known.source:
        return False
    text = pages.get(known.source)
    if text is not None:
        return _shows(text, company.id) or _shows(text, company.postal_code)
    if known.source in unchanged:
        return True
    if known.owner is not SiteOwner.CONFIRMED:
        return False
    if is_on_site(known.source, known.host):
        return not pages and not unchanged
    return all(hit.url != known.source for hit in hits)  # else it is judged with them


def _find_proof_elsewhere(
    company: Company, host: str, own: Sequence[Fact], hits: Sequence[SearchHit]
) -> tuple[str, str] | None:
    """Return a page of another site that names the company by its number or postal code, and this.

    Either by the site's address, which its mail addresses contain, or by a phone number on it.
    """
    numbers = [fact.value for fact in own if fact.field is FactField.PHONE][:_MAX_PHONES]
    phones = [_build_phone_pattern(number) for number in numbers]
    for hit in hits:
        if is_on_site(hit.url, host) or not _names_company(hit, company):
            continue
        if _names_host(hit.text, host):
            return "a page elsewhere names the company and this site", hit.url
        if any(phone is not None and phone.search(hit.text) for phone in phones):
            return "a page elsewhere gives the company the phone number of this site", hit.url
    return None


def _names_company(hit: SearchHit, company: Company) -> bool:
    """Return whether a page has the company's name beside its register number or postal code."""
    shows = _shows(hit.text, company.id) or _shows(hit.text, company.postal_code)
    return shows and mentions_company(company.name, hit)


def _find_own_proof(
    company: Company, own: Sequence[Fact], pages: Mapping[str, str]
) -> tuple[str, str] | None:
    """Return which register fact the site's pages show, and where."""
    stated = (fact for fact in own if fact.field in _REGISTER_FIELDS)
    texts = [*((fact.source, fact.value) for fact in stated), *pages.items()]
    for value, what in ((company.id, "register number"), (company.postal_code, "postal code")):
        for source, text in texts:
            if _shows(text, value):
                return f"its pages show the {what}", source
    return None


def is_on_site(url: str, host: str) -> bool:
    """Return whether an address is a page of this site or of a host below it."""
    other = get_host(url) if "://" in url[:12] else ""
    return bool(host) and (other == host or other.endswith(f".{host}"))


def _shows(text: str, value: str) -> bool:
    """Return whether a text contains a register number or postal code, as a word of its own."""
    if len(value) < _MIN_VALUE_LENGTH:
        return False
    wanted, words = value.upper(), text.upper()
    pattern = rf"(?<![0-9A-Z]){re.escape(wanted)}(?![0-9A-Z])"
    return wanted in words and re.search(pattern, words) is not None  # the first test is quick


def _names_host(text: str, host: str) -> bool:
    pattern = rf"(?<![\w.-])(?:www\.)?{re.escape(host)}(?![\w-]|\.\w)"
    return re.search(pattern, text, re.IGNORECASE) is not None


def _build_phone_pattern(phone: str) -> re.Pattern[str] | None:
    digits = re.sub(r"[^0-9]", "", phone)[-_PHONE_DIGITS:]
    if len(digits) < _PHONE_DIGITS:
        return None
    return re.compile(r"[\s().-]{0,2}".join(digits) + "(?![0-9])")


def find_other_uen(number: str, facts: Iterable[Fact]) -> str:
    """Return the number of another company that the site belongs to, or an empty text."""
    numbers = [fact.value.upper() for fact in facts if fact.field is FactField.UEN]
    return "" if not numbers or number.upper() in numbers else numbers[0]


def get_host(website: str) -> str:
    """Return the host of a site without `www.`, or an empty text when it is no URL."""
    try:
        address = parse_url(website if "://" in website[:12] else f"http://{website}")
    except PermanentError:
        return ""
    return address.host.removeprefix("www.")


def _score_host(words: tuple[str, ...], host: str, title: str) -> float:
    """Return how likely, from 0 to 1, a host is the company's own."""
    labels = host.removeprefix("www.").split(".")
    if any(label in _SHARED_SITES for label in labels) or not words:
        return 0.0
    label = "".join(_WORDS.findall(labels[0])).casefold()
    joined = "".join(words)
    titled = set(_WORDS.findall(title.casefold())) >= set(words)
    if label == joined:
        return 1.0
    if len(joined) >= _MIN_WORD_LENGTH and label.startswith(joined):
        return 0.9 if titled else 0.7
    if len(label) >= _MIN_WORD_LENGTH and joined.startswith(label):
        return 0.8 if titled else 0.6
    return 0.6 if titled and len(words[0]) >= _MIN_WORD_LENGTH and words[0] in label else 0.0
