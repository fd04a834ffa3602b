"""One look at one company: its site, what a search says, the facts in both, whom to write to.

Each vendor is asked only when what came before was not enough, and only for a deep look. What a
cap, a stop or a bad day takes away is written into the notebook, and the look goes on without it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from stoker.accounts.contacts import contacts_found, joined
from stoker.accounts.facts import Extracted, Finding, merged
from stoker.accounts.model import Company, Contact, Dossier
from stoker.accounts.websites import FoundPage, host_of, own_site, somebody_elses, speaks_of
from stoker.base.cancellation import as_long_as
from stoker.base.errors import ConflictError, PermanentError
from stoker.base.types import Depth, Step, clean_text
from stoker.budgets.model import Connector
from stoker.context import Store
from stoker.crawl.model import Excerpt, Outcome, Page, SiteVisit
from stoker.crawl.page_text import Worded, corpus, corpus_key, exact_fingerprint
from stoker.enrichment.model import CompanySources
from stoker.enrichment.pull_units import CONNECTOR
from stoker.enrichment.shortfalls import owed_by
from stoker.enrichment.site_facts import (
    as_remembered,
    known_after,
    noted_reading,
    waits_for_reading,
)
from stoker.enrichment.step_log import Notebook
from stoker.enrichment.work_queue import HELD_STILL, HandingOut
from stoker.vendors.answers import KeepableAnswer, Question
from stoker.vendors.client import Asking
from stoker.vendors.contacts import PeopleAt, Reveal, contacts_of
from stoker.vendors.extraction import extraction
from stoker.vendors.model import Kept
from stoker.vendors.search import search_for

MOST_REVEALED = 2  # people of one company whose addresses are paid for

_SITE_SAYS_ENOUGH = (Outcome.READ, Outcome.UNCHANGED)

AnAnswer = TypeVar("AnAnswer", bound=KeepableAnswer)

AQuestion = TypeVar("AQuestion", bound=Question[Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """What a look found out, small enough to wait with: no pages, no texts."""

    company: Company
    findings: tuple[Finding, ...]
    contacts: tuple[Contact, ...]
    extracted_from: str
    notes: dict[str, str]
    visit: SiteVisit | None  # without its pages
    wanted: bool  # addresses are to be verified


class CompanyLook:
    """Looks at companies of one tenant in one run."""

    def __init__(
        self,
        store: Store,
        *,
        asking: Asking,
        sources: CompanySources,
        steps: Collection[Step],
        corpus_limit: int,
        run: str,
        units: HandingOut,
        keeps_corpus: bool = False,
    ) -> None:
        self._store = store
        self._asking = asking
        self._sources = sources
        self._steps = steps
        self._limit = corpus_limit
        self._run = run
        self._units = units
        self._keeps_corpus = keeps_corpus
        self._reading = asyncio.Lock()

    async def sought(
        self, before: Dossier, depth: Depth, book: Notebook
    ) -> Sequence[FoundPage] | None:
        """Search for a company whose site is not known, if a look this deep does so.

        Before it is paid for: without an answer there is nothing to look at. None if there is
        none; then the notebook has the reason, if anybody was to be asked at all.
        """
        reads = depth is Depth.DEEP or Step.EXTRACT in owed_by(before.notes)
        if before.company.website or not reads:
            return None
        return await self._found(before.company, book)

    async def look(
        self,
        before: Dossier,
        depth: Depth,
        book: Notebook,
        *,
        searched: Sequence[FoundPage] | None = None,
    ) -> Looked:
        """Look at a company this deep; `searched` is what a search said already.

        Raises what the store raises, and ConflictError when the company is no longer ours:
        nobody is asked anything then.
        """
        company, deep = before.company, depth is Depth.DEEP
        owed = owed_by(before.notes)
        # What an earlier night could not get is made up for, however deep this look is.
        reads = deep or Step.EXTRACT in owed
        if not company.website and (reads or searched):
            searched = await self._searched(company, book) if searched is None else searched
            company = replace(company, website=own_site(company.name, searched) or "")
            if searched and not company.website:
                book.remark(f"{Step.EXTRACT}: none of {len(searched)} pages found is its own site")
        whole = Step.EXTRACT in owed or (deep and waits_for_reading(before.notes))
        visit = await self._visited(company, book, whole=whole)
        unchanged = visit is not None and visit.outcome is Outcome.UNCHANGED
        if unchanged and visit is not None:
            visit = replace(visit, pages=())  # they say what they said; nobody reads them again
        plain = await self._plainly(visit.pages if visit else (), (), book)
        not_theirs = ""
        other = somebody_elses(company.id, plain.findings)
        if other and not before.company.website:
            not_theirs = host_of(company.website)
            book.remark(f"{company.website} says it is {other}'s; it is left alone")
            company, visit, plain = replace(company, website=""), None, Extracted(findings=())
        told: list[Excerpt] = []
        if reads and (visit is None or visit.outcome not in _SITE_SAYS_ENOUGH):
            if searched is None:
                searched = await self._searched(company, book)
            told = _told(company, searched, never=not_theirs)
            plain = merged(plain, await self._plainly((), told, book))
        words: list[Worded] = [*(visit.pages if visit else ()), *told]
        if words and self._keeps_corpus:
            await self._keep(company, words, book)
        extracted, fingerprint = plain, ""
        if reads and words:
            extracted, fingerprint = await self._read(company, words, plain, before, book)
        findings = known_after(before.findings, extracted.findings, visit)
        contacts = joined(before.contacts, contacts_found(findings, website=company.website))
        if (deep and not unchanged) or Step.CONTACTS in owed:
            contacts = await self._with_contacts(company, contacts, book)
        return Looked(
            company=company,
            findings=findings,
            contacts=contacts,
            extracted_from=fingerprint,
            notes={**_noted(before, visit), **noted_reading(visit, read=reads)},
            visit=replace(visit, pages=()) if visit else None,
            wanted=(deep and not unchanged) or Step.VERIFY in owed,
        )

    async def _searched(self, company: Company, book: Notebook) -> Sequence[FoundPage]:
        return await self._found(company, book) or ()

    async def _found(self, company: Company, book: Notebook) -> Sequence[FoundPage] | None:
        if self._sources.search is None or Step.EXTRACT not in self._steps:
            return None
        with book.step(Step.EXTRACT):
            question = search_for(company.name, "Singapore")
            found = await self._asked(self._sources.search, question, company, Step.EXTRACT, book)
        return None if found is None else found.pages

    async def _visited(self, company: Company, book: Notebook, *, whole: bool) -> SiteVisit | None:
        if Step.CRAWL not in self._steps or not company.website:
            return None
        self._must_be_ours()
        with book.step(Step.CRAWL):
            site = self._sources.site_named(company.website)
            known = await self._store.pages.pages(site)
            # Whoever still has to read the words must be given all of them again.
            visit = await as_long_as(
                self._units.still_ours,
                self._sources.visits.visit(company.website, known=[] if whole else known),
                otherwise=ConflictError(HELD_STILL),
            )
            visit = as_remembered(visit, known) if whole else visit
        if visit.outcome not in _SITE_SAYS_ENOUGH:
            book.remark(f"{Step.CRAWL}: {visit.outcome}, {visit.reason}")
        return visit

    async def _keep(self, company: Company, words: Sequence[Worded], book: Notebook) -> None:
        """Keep what was read, in place of what was read before: one bounded text a company.

        Good until now, because nobody is answered from it; retention says how long it stays.
        """
        text = clean_text(corpus(words, most=self._limit))
        kept = Kept(
            key=corpus_key(company.id),
            connector=CONNECTOR,
            answer={"text": text, "run": self._run, "pages": [page.url for page in words]},
            cost={},
            at=book.now,
            good_until=book.now,
        )
        await self._store.answers.keep_answers([kept])

    async def _plainly(
        self, pages: Sequence[Page], told: Sequence[Excerpt], book: Notebook
    ) -> Extracted:
        if Step.EXTRACT not in self._steps or not (pages or told):
            return Extracted(findings=())
        with book.step(Step.EXTRACT):
            # Parsing strangers' markup takes a while; everybody else goes on meanwhile. One after
            # the other: large pages take a lot of memory while they are read.
            async with self._reading:
                return await asyncio.to_thread(self._sources.plain, pages, told=told)

    async def _read(
        self,
        company: Company,
        words: Sequence[Worded],
        plain: Extracted,
        before: Dossier,
        book: Notebook,
    ) -> tuple[Extracted, str]:
        """Return what a model adds, and the fingerprint of the words if they were read."""
        if self._sources.model is None or Step.EXTRACT not in self._steps:
            return plain, ""
        with book.step(Step.EXTRACT):
            try:
                question = extraction(words, domain=host_of(company.website), most=self._limit)
            except PermanentError:
                return plain, ""  # there are no words to read
            fingerprint = exact_fingerprint(excerpt.text for excerpt in question.excerpts)
            if fingerprint == before.extracted_from:
                return plain, fingerprint
            read = await self._asked(self._sources.model, question, company, Step.EXTRACT, book)
        if read is None:
            return plain, ""
        if read.note:
            book.remark(f"{Step.EXTRACT}: {read.note}")
        return merged(plain, read), fingerprint

    async def _with_contacts(
        self, company: Company, contacts: tuple[Contact, ...], book: Notebook
    ) -> tuple[Contact, ...]:
        domain = host_of(company.website)
        people_source, reveal = self._sources.people, self._sources.reveal
        if (
            any(contact.email for contact in contacts)
            or not domain
            or people_source is None
            or reveal is None
            or Step.CONTACTS not in self._steps
        ):
            return contacts
        with book.step(Step.CONTACTS):
            step = Step.CONTACTS
            people = await self._asked(people_source, PeopleAt(domain=domain), company, step, book)
            worth = people.worth_revealing(MOST_REVEALED) if people else ()
            if not worth:
                return contacts
            question = Reveal(ids=tuple(person.id for person in worth))
            told = await self._asked(reveal, question, company, step, book)
            if told is None:
                return contacts
            return joined(contacts, contacts_of(worth, told, source=people_source.name))

    async def _asked(
        self,
        connector: Connector[AQuestion, AnAnswer],
        question: AQuestion,
        company: Company,
        step: Step,
        book: Notebook,
    ) -> AnAnswer | None:
        outcome = await self._asking.ask(
            connector, question, account=company.id, run=self._run, ours=self._units.still_ours
        )
        self._must_be_ours()
        return book.took(step, connector.name, outcome)

    def _must_be_ours(self) -> None:
        if not self._units.still_ours():
            raise ConflictError(HELD_STILL)


def _told(company: Company, pages: Sequence[FoundPage], *, never: str) -> list[Excerpt]:
    """Return what pages a search led to say of a company; it also leads to others."""
    return [
        Excerpt(url=page.url, text=page.text, kind="told")
        for page in pages
        if page.text and speaks_of(company.name, page) and host_of(page.url) != (never or None)
    ]


def _noted(before: Dossier, visit: SiteVisit | None) -> dict[str, str]:
    hires = visit is not None and any(page.kind == "careers" for page in visit.pages)
    hiring = {"hiring": "its site has a page of openings"} if hires else {}
    return {**before.notes, **hiring}
