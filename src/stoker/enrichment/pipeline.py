"""Process one company: pay, look up, verify, score, and save the result in one write.

A failing company fails alone: any error with it becomes its end state, with the reason. Only errors
of the store or the settings, which would fail for every company, are raised.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from stoker.accounts.contacts import apply_verdicts, choose_emails_to_verify
from stoker.accounts.facts import Fact, FactField, find_best_fact
from stoker.accounts.icp import IcpRule
from stoker.accounts.model import Company, CompanyRecord, EmailStatus
from stoker.accounts.websites import SearchHit
from stoker.base.clock import Clock
from stoker.base.errors import ConfigError, PermanentError, TransientError, UncertainError
from stoker.base.types import Depth, Step, clean_text
from stoker.budgets.charges import Refusal
from stoker.context import TenantStores
from stoker.enrichment.enrich import CompanyEnricher, Enrichment
from stoker.enrichment.model import SkipReason, WorkItem, WorkState, has_lookup_step
from stoker.enrichment.pull_units import CRAWL, LookupPayments
from stoker.enrichment.step_log import (
    MAX_REASON_LENGTH,
    RETRY_NOTE,
    LookupLog,
    format_steps_to_retry,
    parse_steps_to_retry,
)
from stoker.enrichment.workers import WorkQueue
from stoker.heat.service import LookupFeedback
from stoker.leads.scoring import score_lead
from stoker.leads.settings import ScoreRule
from stoker.vendors.email_batches import EmailBatcher
from stoker.vendors.model import VendorAnswer

SYSTEM_ERRORS = (TransientError, UncertainError, ConfigError)
"""Errors of our own store or settings, which would fail for every company."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnrichmentRule:
    """What a tenant looks for, and how good a lead is."""

    icp: IcpRule
    score: ScoreRule


@dataclass(frozen=True, slots=True, kw_only=True)
class PaidLookup:
    """A lookup that may be taken, and how deep."""

    depth: Depth
    pages: Sequence[SearchHit] | None = None  # None: the search was not made yet
    has_target: bool = True  # or there was nothing, and nothing was paid


class CompanyPipeline:
    """Carries out items of one tenant's run."""

    def __init__(
        self,
        store: TenantStores,
        *,
        enricher: CompanyEnricher,
        payments: LookupPayments,
        email_batcher: EmailBatcher | None,
        verifier: str,
        queue: WorkQueue,
        rule: EnrichmentRule,
        steps: Collection[Step],
        run: str,
        clock: Clock,
        after_lookup: LookupFeedback | None = None,
    ) -> None:
        self._after_lookup = after_lookup
        self._store = store
        self._enricher = enricher
        self._payments = payments
        self._email_batcher = email_batcher
        self._verifier = verifier
        self._queue = queue
        self._rule = rule
        self._steps = steps
        self._run = run
        self._clock = clock
        self.cap_resets_at: datetime | None = None  # when the first full cap has room again

    async def process(
        self, unit: WorkItem, *, park: Callable[[], Awaitable[None]]
    ) -> WorkItem | Refusal | None:
        """Process an item and save how it ended; return the ended item.

        Returns a Refusal when not even a shallow lookup can be paid for; then nothing was done and
        the item stays claimed. None when our claim may have expired meanwhile: nothing new was
        begun since. Calls `park` once only a verdict is awaited and the worker slot can be
        released. Raises SYSTEM_ERRORS.
        """
        log = LookupLog(unit, clock=self._clock)
        try:
            before = await self._store.accounts.find_company_record(unit.company)
            if before is None:
                raise PermanentError("this company is no longer stored")
            if before.looked_at is None and not has_lookup_step(self._steps):
                raise PermanentError("it was never researched; run its lookup steps too")
            if not self._queue.is_owner():
                return None
            lookup = await self._pay_for_lookup(unit, before, log)
            if isinstance(lookup, Refusal):
                return lookup
            if lookup.depth is not unit.depth:
                because = "too little budget left for deep research; researched shallowly"
                log.record_skip(Step.CRAWL, SkipReason.REFUSED, CRAWL, because)
            enrichment = await self._enricher.enrich(
                before, lookup.depth, log, searched=lookup.pages
            )
            await park()
            enrichment = await self._add_verdicts(enrichment, log)
            looked_at = (
                log.now if has_lookup_step(self._steps) and lookup.has_target else before.looked_at
            )
            record = self._build_record(enrichment, before, log, looked_at=looked_at)
            if record.score is not None:
                score = await self._enricher.reword_rationale(record.score, self._rule.score, log)
                record = replace(record, score=score)
            ended = self._finish_item(log)
            if await self._queue.finish(ended, record):
                await self._save_visit(enrichment, lookup.depth, before, record)
        except SYSTEM_ERRORS:
            raise
        except Exception as error:  # noqa: BLE001  # the one place: a fault ends one unit, not all
            ended = await self._fail_item(log, error)
        return ended if self._queue.is_owner() else None

    async def _save_visit(
        self, enrichment: Enrichment, depth: Depth, before: CompanyRecord, after: CompanyRecord
    ) -> None:
        # After what was made of the pages is safe: otherwise a crash in between would leave a
        # site that is unchanged for ever and was never read.
        if enrichment.visit is not None:
            await self._store.pages.save_pages(enrichment.visit.site, enrichment.visit.seen)
        if self._after_lookup is not None and has_lookup_step(self._steps):
            await self._after_lookup.record_lookup(
                self._store,
                run=self._run,
                depth=depth,
                visit=enrichment.visit,
                before=before,
                after=after,
                now=self._clock.now(),
            )

    async def _pay_for_lookup(
        self, item: WorkItem, before: CompanyRecord, log: LookupLog
    ) -> PaidLookup | Refusal:
        """Reserve pull units, find the site, and pay; without a site nothing is paid.

        No vendor is asked for the site when the units do not fit.
        """
        if not has_lookup_step(self._steps):
            return PaidLookup(depth=item.depth)  # only what is known is verified or scored
        payment = await self._payments.reserve(item.company, item.depth, now=self._clock.now())
        if isinstance(payment, Refusal):
            return payment
        if payment.reserved is None:
            return PaidLookup(depth=payment.depth)
        async with payment.reserved:
            pages = await self._enricher.find_pages(before, payment.depth, log)
            if pages is not None or before.company.website:
                log.record_cost(CRAWL, await payment.settle())
                return PaidLookup(depth=payment.depth, pages=pages)
            await payment.reserved.release("there is no website to research")
        log.add_note("its website is unknown and was not found; nothing charged")
        return PaidLookup(depth=payment.depth, pages=(), has_target=False)

    def _finish_item(self, log: LookupLog) -> WorkItem:
        resets = [at for at in (self.cap_resets_at, log.cap_resets_at) if at is not None]
        self.cap_resets_at = min(resets, default=None)
        return log.build_result()

    async def _add_verdicts(self, enrichment: Enrichment, log: LookupLog) -> Enrichment:
        emails = choose_emails_to_verify(enrichment.contacts)
        if not emails or not enrichment.needs_verification or self._email_batcher is None:
            return enrichment
        verdicts: dict[str, EmailStatus] = {}
        with log.time_step(Step.VERIFY):
            for email, outcome in (await self._email_batcher.verify(emails)).items():
                verified = log.record_answer(Step.VERIFY, self._verifier, outcome)
                if isinstance(outcome, VendorAnswer) and verified is not None:
                    verdicts[email] = verified.verdict
        return replace(enrichment, contacts=apply_verdicts(enrichment.contacts, verdicts))

    def _build_record(
        self,
        enrichment: Enrichment,
        before: CompanyRecord,
        log: LookupLog,
        *,
        looked_at: datetime | None,
    ) -> CompanyRecord:
        owed = format_steps_to_retry(
            log.skipped, before=parse_steps_to_retry(before.notes), steps=self._steps
        )
        with log.time_step(Step.SCORE):
            record = CompanyRecord(
                company=_add_size(enrichment.company, enrichment.findings),
                facts=enrichment.findings,
                contacts=enrichment.contacts,
                looked_at=looked_at,
                run=self._run,
                extracted_from=enrichment.extracted_from,
                # Never empty, because what is empty does not replace what was noted before.
                notes={**enrichment.notes, RETRY_NOTE: owed},
            )
            if Step.SCORE not in self._steps or looked_at is None:
                return record
            if _is_nothing_known(enrichment, before, log):
                return record
            return replace(record, score=score_lead(record, self._rule.icp, self._rule.score))

    async def _fail_item(self, log: LookupLog, error: Exception) -> WorkItem:
        known = isinstance(error, PermanentError)
        because = str(error) if known else f"internal error: {type(error).__name__}: {error}"
        ended = replace(
            log.build_result(),
            state=WorkState.FAILED,
            reasons=(clean_text(because)[:MAX_REASON_LENGTH],),
        )
        await self._queue.finish(ended, None)
        return ended


def _is_nothing_known(enrichment: Enrichment, before: CompanyRecord, log: LookupLog) -> bool:
    """Return whether no vendor could be asked, so that a score would mean nothing yet."""
    silent = not enrichment.company.website and not enrichment.findings and before.score is None
    return silent and any(each.cause is not SkipReason.NEVER for each in log.skipped)


def _add_size(company: Company, findings: tuple[Fact, ...]) -> Company:
    """Return the company with what was found out about its size."""
    employees = find_best_fact(findings, FactField.EMPLOYEES)
    if employees is None:
        return company
    low, _, high = employees.value.partition("-")
    if not low.isdecimal() or not (high or low).isdecimal():
        return company
    return replace(company, employees=(int(low) + int(high or low)) // 2)
