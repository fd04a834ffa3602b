"""Look up one company: its site, search results, the facts in both, and contacts.

Asks a vendor only when earlier steps were not enough, and only in a deep lookup. What a cap, a stop
or a failing vendor takes away goes into the lookup log, and the lookup continues.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from stoker.accounts.contacts import (
    build_contacts_from_facts,
    has_reachable_person,
    has_unverified_email,
    merge_contacts,
)
from stoker.accounts.erasure import Suppressions, redact_texts
from stoker.accounts.facts import ExtractedFacts, Fact, merge_extractions
from stoker.accounts.model import Company, CompanyRecord, Contact, LeadScore, SiteVerdict
from stoker.accounts.websites import (
    SearchHit,
    find_company_website,
    find_other_uen,
    get_host,
    judge_site,
    mentions_company,
)
from stoker.base.cancellation import run_while
from stoker.base.errors import ConflictError, PermanentError
from stoker.base.process_pool import Aborted, ProcessPool
from stoker.base.types import Depth, Step, clean_text
from stoker.budgets.model import Connector
from stoker.context import TenantStores
from stoker.crawl.key_pages import parse_site
from stoker.crawl.model import (
    Excerpt,
    Page,
    PageText,
    SiteVisit,
    VisitOutcome,
    build_corpus,
    build_corpus_key,
    compute_exact_fingerprint,
)
from stoker.crawl.people import count_openings
from stoker.enrichment.model import CRAWL, MAX_REASON_LENGTH, CompanyVendors
from stoker.enrichment.outcomes import (
    AnswerT,
    LookupLog,
    format_missing_answer,
    parse_steps_to_retry,
)
from stoker.enrichment.site_facts import (
    build_unread_note,
    has_unread_pages,
    list_unchanged_pages,
    merge_visit,
    restore_change_dates,
)
from stoker.enrichment.workers import LEASE_LOST, WorkQueue
from stoker.heat.model import Signal, SignalKind
from stoker.leads.rationale import build_rationale, build_rationale_query
from stoker.leads.reasons import (
    HIRING_NOTE,
    HIRING_PAGE_NOTE,
    OPENINGS_NOTE,
    POSTINGS_NOTE,
    POSTINGS_SOURCE_NOTE,
)
from stoker.leads.settings import ScoreRule
from stoker.vendors.client import VendorClient
from stoker.vendors.extraction import build_extraction_query
from stoker.vendors.lusha import PeopleQuery, RevealQuery, build_contacts
from stoker.vendors.model import CachedAnswer, VendorAnswer, VendorQuery
from stoker.vendors.tavily import PageTextsQuery, build_company_search

MAX_PAGES_READ = 2  # pages about one company that the search vendor is paid to read

MAX_SIGNALS = 200  # of one company, among which its job postings are counted
MAX_REVEALED = 2  # people of one company whose addresses are paid for

_READABLE_OUTCOMES = (VisitOutcome.READ, VisitOutcome.UNCHANGED)

QueryT = TypeVar("QueryT", bound=VendorQuery[Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Enrichment:
    """What a lookup found out, small enough to wait with: no pages, no texts."""

    company: Company
    findings: tuple[Fact, ...]
    contacts: tuple[Contact, ...]
    extracted_from: str
    notes: dict[str, str]
    visit: SiteVisit | None  # without its pages
    site: SiteVerdict | None
    needs_verification: bool  # addresses are to be verified
    has_more_to_verify: bool = False  # another night is to verify the rest of them


@dataclass(slots=True)
class CompanyEnricher:
    """Looks at companies of one tenant in one run."""

    store: TenantStores
    client: VendorClient
    vendors: CompanyVendors
    steps: Collection[Step]
    corpus_limit: int
    run: str
    queue: WorkQueue
    keep_corpus: bool = False
    pool: ProcessPool = field(default_factory=ProcessPool)  # for what may take long

    async def find_pages(
        self, before: CompanyRecord, depth: Depth, book: LookupLog
    ) -> Sequence[SearchHit] | None:
        """Search for a company whose site is not known, if a lookup this deep does so.

        Before it is paid for: without an answer there is nothing to look up. None without an
        answer; if a vendor was asked, the log has the reason.
        """
        reads = depth is Depth.DEEP or Step.EXTRACT in parse_steps_to_retry(before.notes)
        if before.company.website or not reads:
            return None
        return await self._search(before.company, book)

    async def enrich(
        self,
        before: CompanyRecord,
        depth: Depth,
        book: LookupLog,
        *,
        searched: Sequence[SearchHit] | None = None,
    ) -> Enrichment:
        """Look up a company this deep; `searched` is the result of an earlier search.

        Raises what the store raises, and ConflictError when the worker no longer owns the company:
        then no vendor is asked.
        """
        company, deep = before.company, depth is Depth.DEEP
        suppressed = await self.store.accounts.read_suppressions()
        owed = parse_steps_to_retry(before.notes)
        # What an earlier night could not get is made up for, however deep this look is.
        reads = deep or Step.EXTRACT in owed
        if not company.website and (reads or searched):
            searched = await self._search_or_empty(company, book) if searched is None else searched
            company = replace(company, website=find_company_website(company.name, searched) or "")
            if searched and not company.website:
                pages = f"none of {len(searched)} pages found is its own site"
                book.add_note(pages, step=Step.EXTRACT)
        whole = Step.EXTRACT in owed or (deep and has_unread_pages(before.notes))
        visit = await self._visit_site(company, book, whole=whole)
        unchanged = visit is not None and visit.outcome is VisitOutcome.UNCHANGED
        if unchanged and visit is not None:
            visit = replace(visit, pages=())  # unchanged pages are not read again
        plain = await self._extract_by_rules(visit.pages if visit else (), (), book)
        not_theirs = ""
        other = find_other_uen(company.id, plain.facts)
        if other and not before.company.website:
            not_theirs = get_host(company.website)
            book.add_note(f"{company.website} says it is {other}'s; it is left alone")
            company, visit, plain = replace(company, website=""), None, ExtractedFacts(facts=())
        excerpts: list[Excerpt] = []
        if reads and (visit is None or visit.outcome not in _READABLE_OUTCOMES):
            if searched is None:
                searched = await self._search_or_empty(company, book)
            excerpts = _find_excerpts(company, searched, never=not_theirs)
            excerpts = await self._read_best_pages(company, excerpts, book)
            plain = merge_extractions(plain, await self._extract_by_rules((), excerpts, book))
        words: list[PageText] = [*(visit.pages if visit else ()), *excerpts]
        given_up = False
        if suppressed and words:
            texts = [text for page in words for text in (page.url, page.text)]
            told = await self.pool.run(redact_texts, suppressed, texts, company.id)
            if isinstance(told, Aborted):
                book.add_note(f"the pages' words are left out: {told.reason}", step=Step.EXTRACT)
                given_up, told, words = True, [], []  # nothing rather than all
            words = [
                Excerpt(url=url, text=text, kind=page.kind)
                for page, url, text in zip(words, told[::2], told[1::2], strict=True)
            ]
        if words and self.keep_corpus:
            await self._save_corpus(company, words, book)
        extracted, fingerprint = plain, ""
        if reads and words:
            extracted, fingerprint = await self._extract_by_model(
                company, words, plain, before, book
            )
        findings = await self._merge_facts(before, extracted.facts, visit, suppressed)
        if isinstance(findings, Aborted):
            text = f"the facts stay as they were before: {findings.reason}"
            book.add_note(text, step=Step.EXTRACT)
            given_up, findings, fingerprint = True, before.facts, ""
        contacts = merge_contacts(
            before.contacts, build_contacts_from_facts(findings, website=company.website)
        )
        if (deep and not unchanged) or Step.CONTACTS in owed:
            contacts = await self._add_contacts(company, contacts, book)
        contacts = suppressed.filter_contacts(contacts, company.id)
        unread = build_unread_note(visit, read=reads and not given_up)
        signals = await self.store.heat.list_signals(company.id, limit=MAX_SIGNALS)
        postings = [each for each in signals if each.kind is SignalKind.POSTING]
        return Enrichment(
            company=company,
            findings=findings,
            contacts=contacts,
            extracted_from=fingerprint,
            notes={**_build_notes(before, visit, postings), **unread},
            visit=replace(visit, pages=()) if visit else None,
            site=_judge_site(before, company, findings, visit, searched or ()),
            needs_verification=(deep and (not unchanged or has_unverified_email(contacts)))
            or Step.VERIFY in owed,
        )

    async def _search_or_empty(self, company: Company, log: LookupLog) -> Sequence[SearchHit]:
        return await self._search(company, log) or ()

    async def _search(self, company: Company, log: LookupLog) -> Sequence[SearchHit] | None:
        if self.vendors.search is None or Step.EXTRACT not in self.steps:
            return None
        with log.time_step(Step.EXTRACT):
            question = build_company_search(company.name, "Singapore")
            found = await self._ask_vendor(
                self.vendors.search, question, company, Step.EXTRACT, log
            )
        return None if found is None else found.pages

    async def _read_best_pages(
        self, company: Company, excerpts: list[Excerpt], log: LookupLog
    ) -> list[Excerpt]:
        """Return the excerpts, the best of them with what the search vendor read on their pages."""
        if self.vendors.pages is None or not excerpts or Step.EXTRACT not in self.steps:
            return excerpts
        with log.time_step(Step.EXTRACT):
            question = PageTextsQuery(urls=tuple(each.url for each in excerpts[:MAX_PAGES_READ]))
            found = await self._ask_vendor(self.vendors.pages, question, company, Step.EXTRACT, log)
        texts = {page.url: page.text for page in found.pages} if found else {}
        return [replace(each, text=texts.get(each.url) or each.text) for each in excerpts]

    async def _visit_site(
        self, company: Company, log: LookupLog, *, whole: bool
    ) -> SiteVisit | None:
        if Step.CRAWL not in self.steps or not company.website:
            return None
        self._check_lease()
        with log.time_step(Step.CRAWL):
            site = parse_site(company.website)
            known = await self.store.pages.list_pages(site)
            # A lookup that has not read the texts yet needs all of them, changed or not.
            visit = await run_while(
                self.queue.is_owner,
                self.vendors.crawler.visit(company.website, known=[] if whole else known),
                otherwise=ConflictError(LEASE_LOST),
            )
            visit = restore_change_dates(visit, known) if whole else visit
        if visit.outcome not in _READABLE_OUTCOMES:
            text = f"{visit.outcome}, {visit.reason}"
            log.add_note(text, step=Step.CRAWL, cause=visit.reason)
        return visit

    async def _save_corpus(
        self, company: Company, words: Sequence[PageText], log: LookupLog
    ) -> None:
        """Keep what was read, in place of what was read before: one bounded text a company.

        Expires at once, because no query is answered from it; retention decides how long it stays.
        """
        text = clean_text(build_corpus(words, most=self.corpus_limit))
        answer = CachedAnswer(
            key=build_corpus_key(company.id),
            connector=CRAWL,
            answer={"text": text, "run": self.run, "pages": [page.url for page in words]},
            cost={},
            at=log.now,
            expires_at=log.now,
            account=company.id,
        )
        await self.store.answers.save_answers([answer])

    async def _extract_by_rules(
        self, pages: Sequence[Page], excerpts: Sequence[Excerpt], log: LookupLog
    ) -> ExtractedFacts:
        if Step.EXTRACT not in self.steps or not (pages or excerpts):
            return ExtractedFacts(facts=())
        with log.time_step(Step.EXTRACT):
            return await self.vendors.extract_facts(pages, excerpts=excerpts)

    async def _extract_by_model(
        self,
        company: Company,
        words: Sequence[PageText],
        plain: ExtractedFacts,
        before: CompanyRecord,
        log: LookupLog,
    ) -> tuple[ExtractedFacts, str]:
        """Return what a model adds, and the fingerprint of the words if they were read."""
        if self.vendors.llm is None or Step.EXTRACT not in self.steps:
            return plain, ""
        with log.time_step(Step.EXTRACT):
            try:
                question = build_extraction_query(
                    words, domain=get_host(company.website), most=self.corpus_limit
                )
            except PermanentError:
                return plain, ""  # there are no words to read
            fingerprint = compute_exact_fingerprint(excerpt.text for excerpt in question.excerpts)
            if fingerprint == before.extracted_from:
                return plain, fingerprint
            read = await self._ask_vendor(self.vendors.llm, question, company, Step.EXTRACT, log)
        if read is None:
            return plain, ""
        if read.note:
            log.add_note(read.note, step=Step.EXTRACT)
        return merge_extractions(plain, read), fingerprint

    async def _merge_facts(
        self,
        before: CompanyRecord,
        found: Sequence[Fact],
        visit: SiteVisit | None,
        suppressed: Suppressions,
    ) -> tuple[Fact, ...] | Aborted:
        """Return what is known now, without erased persons. Strangers' texts decide how long."""
        merged = await self.pool.run(merge_visit, before.facts, found, visit)
        if isinstance(merged, Aborted) or not suppressed:
            return merged
        return await self.pool.run(suppressed.filter_facts, merged, before.company.id)

    async def _add_contacts(
        self, company: Company, contacts: tuple[Contact, ...], log: LookupLog
    ) -> tuple[Contact, ...]:
        domain = get_host(company.website)
        people_source, reveal = self.vendors.people, self.vendors.reveal
        if (
            has_reachable_person(contacts)
            or not domain
            or people_source is None
            or reveal is None
            or Step.CONTACTS not in self.steps
        ):
            return contacts
        with log.time_step(Step.CONTACTS):
            step = Step.CONTACTS
            people = await self._ask_vendor(
                people_source, PeopleQuery(domain=domain), company, step, log
            )
            worth = people.choose_most_senior(MAX_REVEALED) if people else ()
            if not worth:
                return contacts
            question = RevealQuery(ids=tuple(person.id for person in worth))
            revealed = await self._ask_vendor(reveal, question, company, step, log)
            if revealed is None:
                return contacts
            return merge_contacts(
                contacts, build_contacts(worth, revealed, source=people_source.name)
            )

    async def _ask_vendor(
        self,
        connector: Connector[QueryT, AnswerT],
        question: QueryT,
        company: Company,
        step: Step,
        log: LookupLog,
    ) -> AnswerT | None:
        with log.time_step(connector.name):
            outcome = await self.client.ask(
                connector,
                question,
                account=company.id,
                run=self.run,
                still_owner=self.queue.is_owner,
            )
        self._check_lease()
        return log.record_answer(step, connector.name, outcome)

    async def reword_rationale(
        self, score: LeadScore, rule: ScoreRule, log: LookupLog
    ) -> LeadScore:
        """Return a score with its rationale in a model's words, or as it is, with a note why.

        One query for all companies with the same features, so it is about no account. A failure
        leaves our own words: no step is skipped for it.
        """
        model = self.vendors.rationales
        if model is None:
            return score
        with log.time_step(Step.SCORE):
            outcome = await self.client.ask(
                model,
                build_rationale_query(score, rule),
                account="",
                run=self.run,
                still_owner=self.queue.is_owner,
            )
        if not isinstance(outcome, VendorAnswer):
            reason = format_missing_answer(model.name, outcome)
            cause = format_missing_answer(model.name, outcome, in_general=True)
        else:
            answer = log.record_answer(Step.SCORE, model.name, outcome)
            if answer is not None and answer.text:
                return replace(score, rationale=build_rationale(answer, score.rationale))
            reason = cause = answer.note if answer else ""
        because = "the rationale was not reworded: "
        text = clean_text(because + reason)[:MAX_REASON_LENGTH]
        log.add_note(text, step=Step.SCORE, cause=because + cause)
        return score

    def _check_lease(self) -> None:
        if not self.queue.is_owner():
            raise ConflictError(LEASE_LOST)


def _find_excerpts(company: Company, pages: Sequence[SearchHit], *, never: str) -> list[Excerpt]:
    """Return what pages a search led to say of a company; it also leads to others."""
    return [
        Excerpt(url=page.url, text=page.text, kind="told")
        for page in pages
        if page.text
        and mentions_company(company.name, page)
        and get_host(page.url) != (never or None)
    ]


def _judge_site(
    before: CompanyRecord,
    company: Company,
    findings: Sequence[Fact],
    visit: SiteVisit | None,
    hits: Sequence[SearchHit],
) -> SiteVerdict | None:
    if visit is None and not hits:
        return before.site  # nothing was looked at
    pages = {page.url: f"{page.title}\n{page.text}" for page in visit.pages} if visit else {}
    return judge_site(
        before,
        company.website,
        facts=findings,
        pages=pages,
        hits=hits,
        unchanged=list_unchanged_pages(visit) if visit else (),
    )


def _build_notes(
    before: CompanyRecord, visit: SiteVisit | None, postings: Sequence[Signal]
) -> dict[str, str]:
    careers = [page for page in visit.pages if page.kind == "careers"] if visit else []
    hiring = {}
    if careers:
        hiring = {
            HIRING_NOTE: "its site has a page of openings",
            HIRING_PAGE_NOTE: careers[0].url,
            OPENINGS_NOTE: str(count_openings(careers[0].text)),
        }
    # Old postings are deleted with their signals, so the count is what is known now.
    listed = {POSTINGS_NOTE: str(len(postings))}
    if postings:
        listed[POSTINGS_SOURCE_NOTE] = postings[0].source
    return {**before.notes, **hiring, **listed}
