from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from stoker.accounts.erasure import ERASED, Person
from stoker.accounts.facts import ExtractedFacts, Fact, FactField, Method
from stoker.accounts.model import Company, CompanyId, CompanyRecord, SiteOwner, SiteVerdict
from stoker.backends.sqlite import MemoryBackend
from stoker.base.errors import TransientError
from stoker.base.process_pool import Aborted, ProcessPool
from stoker.base.types import Depth, Step, TenantId
from stoker.crawl.model import (
    Page,
    PageState,
    SiteVisit,
    VisitOutcome,
    build_corpus_key,
    compute_exact_fingerprint,
)
from stoker.enrichment.enrich import CompanyEnricher
from stoker.enrichment.model import CompanyVendors, WorkItem
from stoker.enrichment.outcomes import LookupLog
from stoker.enrichment.site_facts import MAX_FACTS, has_unread_pages, merge_visit
from stoker.testing import FakeClock
from stoker.vendors.extraction import build_extraction_query

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
HOME = "https://acme.sg/"


def finding(value, source=HOME, field=FactField.EMAIL):
    return Fact.build(field, value, source=source, how=Method.TEXT, confidence=0.5)


def visit(text, *, outcome=VisitOutcome.READ, changed=True):
    seen = PageState(
        url=HOME,
        status=200,
        seen_at=NOON,
        changed_at=NOON if changed else NOON - timedelta(days=1),
    )
    page = Page(url=HOME, kind="home", title="Acme", text=text, seen=seen)
    return SiteVisit(site="acme.sg", outcome=outcome, reason="", pages=(page,))


OLD = finding("old@acme.sg")


def test_a_page_that_changed_and_no_longer_says_it_takes_its_value_back():
    assert merge_visit([OLD], [], visit("Write to new@acme.sg")) == ()


def test_a_page_that_changed_and_still_says_it_keeps_its_value():
    assert merge_visit([OLD], [], visit("New: write to OLD@acme.sg")) == (OLD,)


@pytest.mark.parametrize(
    "seen",
    [
        None,
        visit("nothing", changed=False),
        visit("nothing", outcome=VisitOutcome.THIN),
        visit("nothing", outcome=VisitOutcome.UNCHANGED),
        visit("nothing", outcome=VisitOutcome.BLOCKED),
    ],
)
def test_what_nobody_took_back_stays(seen):
    assert merge_visit([OLD], [], seen) == (OLD,)


def test_what_others_said_stays_whatever_the_site_says():
    told = finding("old@acme.sg", source="https://directory.test/acme")
    assert merge_visit([told], [], visit("something else")) == (told,)


def test_what_was_found_now_comes_first_and_there_is_an_end():
    new = [finding(f"n{n}@acme.sg") for n in range(MAX_FACTS + 5)]
    known = merge_visit([OLD], new, None)
    assert known[0] == new[0]
    assert len(known) == MAX_FACTS


KNOWN = CompanyRecord(
    company=Company(id=CompanyId("201912345K"), name="Acme", website="https://acme.sg/"),
    looked_at=NOON,
    facts=(OLD,),
)


def enricher_with(vendors, **how):
    store = MemoryBackend().tenant(TenantId("acme"))
    defaults = {"steps": (Step.SCORE,), "corpus_limit": 1000, "run": "r", "queue": None}
    return CompanyEnricher(store, client=None, vendors=vendors, **{**defaults, **how})


async def test_a_site_is_judged_only_by_a_run_that_looks():
    for site in (None, SiteVerdict(host="acme.sg", owner=SiteOwner.CONFIRMED, source="p")):
        enricher = enricher_with(CompanyVendors(crawler=None, extract_facts=None))
        log = LookupLog(WorkItem(company=KNOWN.company.id, rank=0, depth=Depth.SHALLOW), clock=None)
        found = await enricher.enrich(replace(KNOWN, site=site), Depth.SHALLOW, log)
        assert found.site == site


CONTACT = "https://acme.sg/contact"
BY_CONTACT = SiteVerdict(host="acme.sg", owner=SiteOwner.CONFIRMED, proof="p", source=CONTACT)
AS_IT_WAS = PageState(
    url=CONTACT, status=200, fingerprint="f", seen_at=NOON, changed_at=NOON - timedelta(days=1)
)


@pytest.mark.parametrize(
    ("outcome", "seen", "owner"),
    [
        (VisitOutcome.READ, [AS_IT_WAS], SiteOwner.CONFIRMED),
        (VisitOutcome.UNCHANGED, [AS_IT_WAS], SiteOwner.CONFIRMED),
        (VisitOutcome.READ, [], SiteOwner.PROBABLE),
        (VisitOutcome.READ, [replace(AS_IT_WAS, status=404)], SiteOwner.PROBABLE),
        (VisitOutcome.READ, [replace(AS_IT_WAS, fingerprint="")], SiteOwner.PROBABLE),
        (VisitOutcome.READ, [replace(AS_IT_WAS, changed_at=NOON)], SiteOwner.PROBABLE),
        (VisitOutcome.UNCHANGED, [replace(AS_IT_WAS, url=HOME)], SiteOwner.PROBABLE),
        (VisitOutcome.FAILED, [replace(AS_IT_WAS, url=HOME + "robots.txt")], SiteOwner.CONFIRMED),
    ],
)
async def test_a_site_stays_confirmed_only_while_its_proof_is_seen(outcome, seen, owner):
    read = visit("Under new owners.", outcome=outcome)
    pages = read.pages if outcome is VisitOutcome.READ else ()
    crawler = Site(replace(read, pages=pages, seen=tuple(seen)))
    enricher = enricher_with(
        CompanyVendors(crawler=crawler, extract_facts=crawler.extract),
        steps=(Step.CRAWL,),
        queue=crawler,
    )
    item = WorkItem(company=KNOWN.company.id, rank=0, depth=Depth.SHALLOW)
    log = LookupLog(item, clock=FakeClock(NOON))
    found = await enricher.enrich(replace(KNOWN, site=BY_CONTACT), Depth.SHALLOW, log)
    assert found.site == replace(BY_CONTACT, owner=owner)


class Busy(ProcessPool):
    """Gives one function up and runs the others, writing down which."""

    def __init__(self, given_up):
        super().__init__()
        self._given_up, self.ran = given_up, []

    async def run(self, function, *args, **kwargs):
        self.ran.append(function.__name__)
        if function.__name__ == self._given_up:
            return Aborted("it takes too long to read")
        return await super().run(function, *args, **kwargs)


class Site:
    """A crawler and extractor of one page, and the owner of the company."""

    def __init__(self, page=None):
        self.page = page or visit("Write to new@acme.sg or jane@acme.sg. Jane Doe leads us.")

    async def visit(self, url, *, known=()):
        return self.page

    async def extract(self, pages, *, excerpts=()):
        facts = [finding("new@acme.sg"), finding("jane@acme.sg")]
        return ExtractedFacts(facts=tuple(facts) if pages else ())

    def is_owner(self):
        return True


async def looked_up(given_up, *, erased=True, before=KNOWN):
    """Return a deep lookup in which one call is given up, its notes, the calls, and the corpus."""
    site, pool = Site(), Busy(given_up)
    enricher = enricher_with(
        CompanyVendors(crawler=site, extract_facts=site.extract, llm=before.extracted_from or None),
        steps=(Step.CRAWL, Step.EXTRACT),
        queue=site,
        pool=pool,
        keep_corpus=True,
    )
    if erased:
        person = Person(emails=("jane@acme.sg",), names=("Jane Doe",))
        await enricher.store.accounts.suppress_person(
            person, [KNOWN.company.id], new_key=b"k" * 32, now=NOON
        )
    clock = FakeClock()
    log = LookupLog(WorkItem(company=KNOWN.company.id, rank=0, depth=Depth.DEEP), clock=clock)
    found = await enricher.enrich(before, Depth.DEEP, log)
    kept = await enricher.store.answers.find_answers([build_corpus_key(KNOWN.company.id)])
    return found, log.build_result().reasons, pool.ran, [*kept.values()]


@pytest.mark.parametrize("given_up", ["merge_visit", "filter_facts"])
async def test_facts_that_take_too_long_to_merge_or_filter_stay_as_they_were(given_up):
    found, notes, _, _ = await looked_up(given_up)
    assert found.findings == (OLD,)
    assert notes == ("extract: the facts stay as they were before: it takes too long to read",)
    assert has_unread_pages(found.notes)  # the next deep lookup reads them again


@pytest.mark.parametrize("given_up", ["merge_visit", ""])
async def test_texts_whose_facts_were_given_up_are_not_said_to_be_read(given_up):
    question = build_extraction_query(Site().page.pages, domain="acme.sg", most=1000)
    words = compute_exact_fingerprint(excerpt.text for excerpt in question.excerpts)
    before = replace(KNOWN, extracted_from=words)  # so that no model is asked
    found, *_ = await looked_up(given_up, erased=False, before=before)
    assert found.extracted_from == ("" if given_up else words)


async def test_words_that_take_too_long_to_redact_are_left_out_with_a_note():
    found, notes, _, corpus = await looked_up("redact_texts")
    assert [fact.value for fact in found.findings] == ["new@acme.sg"]
    assert corpus == []
    assert notes == ("extract: the pages' words are left out: it takes too long to read",)
    assert has_unread_pages(found.notes)


@pytest.mark.parametrize("erased", [True, False])
async def test_a_lookup_leaves_strangers_texts_to_the_workers(erased):
    found, notes, ran, corpus = await looked_up("", erased=erased)
    assert ran == (["redact_texts", "merge_visit", "filter_facts"] if erased else ["merge_visit"])
    assert ("jane@acme.sg" in [fact.value for fact in found.findings]) is not erased
    assert ("Jane Doe" in corpus[0].answer["text"]) is not erased
    assert notes == ()
    assert not has_unread_pages(found.notes)


class Model:
    name = "openai"


class Listening:
    """A client of vendors that keeps the question and has no answer."""

    async def ask(self, connector, question, **how):
        self.question = question
        raise TransientError("away")


async def test_no_address_of_a_page_tells_a_model_of_an_erased_person():
    read = visit("Our team. " * 30)
    [home] = read.pages
    url = f"{HOME}team/jane-doe"
    site, client = Site(replace(read, pages=(replace(home, url=url),))), Listening()
    enricher = enricher_with(
        CompanyVendors(crawler=site, extract_facts=site.extract, llm=Model()),
        steps=(Step.CRAWL, Step.EXTRACT),
        queue=site,
    )
    enricher.client = client
    await enricher.store.accounts.suppress_person(
        Person(names=("Jane Doe",)), [KNOWN.company.id], new_key=b"k" * 32, now=NOON
    )
    item = WorkItem(company=KNOWN.company.id, rank=0, depth=Depth.DEEP)
    with pytest.raises(TransientError):
        await enricher.enrich(KNOWN, Depth.DEEP, LookupLog(item, clock=FakeClock()))
    told = [excerpt.url for excerpt in client.question.excerpts]
    assert told == [f"{HOME}team/{ERASED}"]
