"""Process one company: pay, look up, verify, score, and save the result in one write.

A failing company fails alone: any error with it becomes its end state, with the reason. Only errors
of the store or the settings, which would fail for every company, are raised.

Sites are free; pull units limit how many lookups a tenant makes: once a day per company, however
often a run comes back. The reservation is settled as soon as there is something to look up, so
after a crash it counts as paid and the same day's lookup costs nothing more.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

from stoker.accounts.contacts import (
    apply_verdicts,
    choose_emails_to_verify,
    has_unverified_email,
    list_own_facts,
)
from stoker.accounts.facts import FactField, find_best_fact
from stoker.accounts.icp import IcpRule
from stoker.accounts.model import Company, CompanyId, CompanyRecord, EmailStatus
from stoker.accounts.websites import SearchHit
from stoker.base.clock import Clock
from stoker.base.errors import (
    ConfigError,
    ConflictError,
    PermanentError,
    TransientError,
    UncertainError,
)
from stoker.base.reasons import Reason
from stoker.base.types import Depth, PullJobId, Step, clean_text
from stoker.budgets.charges import Refusal, SpendRequest, to_attempt
from stoker.budgets.reservations import ReservationStatus
from stoker.budgets.service import BudgetService, OpenReservation
from stoker.budgets.windows import ResetRule, WindowKind, compute_window
from stoker.context import TenantStores
from stoker.enrichment.enrich import CompanyEnricher, Enrichment
from stoker.enrichment.model import (
    CRAWL,
    MAX_REASON_LENGTH,
    PULL_UNITS,
    SkipReason,
    WorkItem,
    WorkState,
    has_lookup_step,
    to_cause,
)
from stoker.enrichment.outcomes import (
    RETRY_NOTE,
    LookupLog,
    format_steps_to_retry,
    is_cut_short,
    parse_steps_to_retry,
)
from stoker.enrichment.workers import WorkQueue
from stoker.heat.service import LookupFeedback
from stoker.leads.scoring import score_lead
from stoker.leads.settings import ScoreRule
from stoker.vendors.email_batches import EmailBatcher
from stoker.vendors.model import VendorAnswer

if TYPE_CHECKING:
    from stoker.budgets.store import BudgetStore

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


@dataclass(slots=True)
class CompanyPipeline:
    """Carries out items of one tenant's run."""

    store: TenantStores
    enricher: CompanyEnricher
    payments: LookupPayments
    email_batcher: EmailBatcher | None
    verifier: str
    queue: WorkQueue
    rule: EnrichmentRule
    steps: Collection[Step]
    run: str
    clock: Clock
    after_lookup: LookupFeedback | None = None
    cap_resets_at: datetime | None = None  # when the first full cap has room again

    async def process(
        self, unit: WorkItem, *, park: Callable[[], Awaitable[None]]
    ) -> WorkItem | Refusal | None:
        """Process an item and save how it ended; return the ended item.

        Returns a Refusal when not even a shallow lookup can be paid for; then nothing was done and
        the item stays claimed. None when our claim may have expired meanwhile: nothing new was
        begun since. Calls `park` once only a verdict is awaited and the worker slot can be
        released. Raises SYSTEM_ERRORS.
        """
        log = LookupLog(unit, clock=self.clock)
        try:
            before = await self.store.accounts.find_company_record(unit.company)
            if before is None:
                raise PermanentError("this company is no longer stored")
            if before.looked_at is None and not has_lookup_step(self.steps):
                raise PermanentError("it was never researched; run its lookup steps too")
            if not self.queue.is_owner():
                return None
            lookup = await self._pay_for_lookup(unit, before, log)
            if isinstance(lookup, Refusal):
                return lookup
            if lookup.depth is not unit.depth:
                because = "too little budget left for deep research; researched shallowly"
                log.record_skip(Step.CRAWL, SkipReason.REFUSED, CRAWL, because)
            enrichment = await self.enricher.enrich(
                before, lookup.depth, log, searched=lookup.pages
            )
            await park()
            enrichment = await self._add_verdicts(enrichment, log)
            looked_at = (
                log.now if has_lookup_step(self.steps) and lookup.has_target else before.looked_at
            )
            record = self._build_record(enrichment, before, log, looked_at=looked_at)
            if record.score is not None:
                score = await self.enricher.reword_rationale(record.score, self.rule.score, log)
                record = replace(record, score=score)
            ended = self._finish_item(log)
            if await self.queue.finish(ended, record) and lookup.has_target:
                await self._save_visit(enrichment, lookup.depth, before, record, log)
        except SYSTEM_ERRORS:
            raise
        except Exception as error:  # noqa: BLE001  # the one place: a fault ends one unit, not all
            ended = await self._fail_item(log, error)
        return ended if self.queue.is_owner() else None

    async def _save_visit(
        self,
        enrichment: Enrichment,
        depth: Depth,
        before: CompanyRecord,
        after: CompanyRecord,
        log: LookupLog,
    ) -> None:
        # After what was made of the pages is safe: otherwise a crash in between would leave a
        # site that is unchanged for ever and was never read.
        if enrichment.visit is not None:
            await self.store.pages.save_pages(
                enrichment.visit.site, enrichment.visit.seen, company=after.company.id
            )
        if self.after_lookup is not None and has_lookup_step(self.steps):
            await self.after_lookup.record_lookup(
                self.store,
                run=self.run,
                depth=depth,
                visit=enrichment.visit,
                before=before,
                after=after,
                now=self.clock.now(),
                cut_short=is_cut_short(log.skipped),
                unanswered=any(each.cause is not SkipReason.NEVER for each in log.skipped),
            )

    async def _pay_for_lookup(
        self, item: WorkItem, before: CompanyRecord, log: LookupLog
    ) -> PaidLookup | Refusal:
        """Reserve pull units, find the site, and pay; without a site nothing is paid.

        No vendor is asked for the site when the units do not fit.
        """
        if not has_lookup_step(self.steps):
            return PaidLookup(depth=item.depth)  # only what is known is verified or scored
        payment = await self.payments.reserve(item.company, item.depth, now=self.clock.now())
        if isinstance(payment, Refusal):
            return payment
        if payment.reserved is None:
            return PaidLookup(depth=payment.depth)
        async with payment.reserved:
            pages = await self.enricher.find_pages(before, payment.depth, log)
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
        if not emails or not enrichment.needs_verification or self.email_batcher is None:
            return enrichment
        verdicts: dict[str, EmailStatus] = {}
        with log.time_step(Step.VERIFY):
            for email, outcome in (await self.email_batcher.verify(emails)).items():
                verified = log.record_answer(Step.VERIFY, self.verifier, outcome)
                if isinstance(outcome, VendorAnswer) and verified is not None:
                    verdicts[email] = verified.verdict
        contacts = apply_verdicts(enrichment.contacts, verdicts)
        return replace(
            enrichment,
            contacts=contacts,
            has_more_to_verify=has_unverified_email(contacts, besides=emails),
        )

    def _build_record(
        self,
        enrichment: Enrichment,
        before: CompanyRecord,
        log: LookupLog,
        *,
        looked_at: datetime | None,
    ) -> CompanyRecord:
        owed = format_steps_to_retry(
            log.skipped, before=parse_steps_to_retry(before.notes), steps=self.steps
        )
        if enrichment.has_more_to_verify and Step.VERIFY.value not in owed.split(","):
            owed = ",".join(filter(None, (owed, Step.VERIFY.value)))
        with log.time_step(Step.SCORE):
            record = CompanyRecord(
                company=enrichment.company,
                facts=enrichment.findings,
                contacts=enrichment.contacts,
                looked_at=looked_at,
                run=self.run,
                extracted_from=enrichment.extracted_from,
                # Never empty, because what is empty does not replace what was noted before.
                notes={**enrichment.notes, RETRY_NOTE: owed},
                site=enrichment.site,
            )
            record = replace(record, company=_add_size(record))
            if Step.SCORE not in self.steps or looked_at is None:
                return record
            if _is_nothing_known(enrichment, before, log):
                return record
            return replace(record, score=score_lead(record, self.rule.icp, self.rule.score))

    async def _fail_item(self, log: LookupLog, error: Exception) -> WorkItem:
        known = isinstance(error, PermanentError)
        because = str(error) if known else f"internal error: {type(error).__name__}: {error}"
        ended = replace(
            log.build_result(),
            state=WorkState.FAILED,
            reasons=(clean_text(because)[:MAX_REASON_LENGTH],),
            causes=(to_cause(because, None),),
        )
        await self.queue.finish(ended, None)
        return ended


def _is_nothing_known(enrichment: Enrichment, before: CompanyRecord, log: LookupLog) -> bool:
    """Return whether no vendor could be asked, so that a score would mean nothing yet."""
    silent = not enrichment.company.website and not enrichment.findings and before.score is None
    return silent and any(each.cause is not SkipReason.NEVER for each in log.skipped)


def _add_size(record: CompanyRecord) -> Company:
    """Return the company with what was found out about its size, unless it may be another's."""
    company, employees = record.company, find_best_fact(list_own_facts(record), FactField.EMPLOYEES)
    if employees is None:
        return company
    low, _, high = employees.value.partition("-")
    if not low.isdecimal() or not (high or low).isdecimal():
        return company
    return replace(company, employees=(int(low) + int(high or low)) // 2)


_MAX_ATTEMPTS = 100  # earlier reservations that were released; more are a bug
_UNUSED_STATES = (ReservationStatus.RELEASED, ReservationStatus.EXPIRED)


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupPayment:
    """The pull units of one lookup: reserved now, or paid for earlier today (None)."""

    depth: Depth
    price: Mapping[str, int] = field(default_factory=dict)
    reserved: OpenReservation | None = None

    async def settle(self) -> Mapping[str, int]:
        """Pay what is reserved; return what it cost, nothing if another run paid meanwhile."""
        if self.reserved is None:
            return {}
        try:
            await self.reserved.mark_sent()
            await self.reserved.settle(self.price)
        except ConflictError:
            return {}
        return self.price


@dataclass(slots=True)
class LookupPayments:
    """One tenant's lookups in one run. `prices` are pull units by depth."""

    budget: BudgetService
    money: BudgetStore
    prices: Mapping[Depth, int]
    reset: ResetRule
    run: str
    pull_id: Callable[[CompanyId, Depth, datetime], PullJobId] | None = None

    async def reserve(
        self, company: CompanyId, depth: Depth, *, now: datetime
    ) -> LookupPayment | Refusal:
        """Reserve the units of a lookup, or of a shallow one when only those fit.

        The caller enters what is reserved, and settles it once there is something to look up.
        Raises TransientError when the budget cannot be read.
        """
        outcome = await self._reserve_at_depth(company, depth, now)
        if isinstance(outcome, Refusal) and outcome.cap and depth is Depth.DEEP:
            shallower = await self._reserve_at_depth(company, Depth.SHALLOW, now)
            return outcome if isinstance(shallower, Refusal) else shallower
        return outcome

    async def _reserve_at_depth(
        self, company: CompanyId, depth: Depth, now: datetime
    ) -> LookupPayment | Refusal:
        price = {PULL_UNITS: self.prices[depth]}
        request = SpendRequest(
            key=self._build_key(company, depth, now, price[PULL_UNITS]),
            connector=CRAWL,
            amounts=price,
            run=self.run,
            account=company,
        )
        for number in range(1, _MAX_ATTEMPTS + 1):
            attempt = to_attempt(request, number)
            # Whichever run of today asked: in another one, the same key would be a conflict.
            reservation = await self.money.find_reservation(attempt.key)
            if reservation is None:
                try:
                    outcome = await self.budget.reserve(attempt)
                except ConflictError:
                    break  # another run has paid in this very moment
                if isinstance(outcome, OpenReservation):
                    return LookupPayment(depth=depth, price=price, reserved=outcome)
                if isinstance(outcome, Refusal):
                    if outcome.reason == Reason.BUDGET_UNREADABLE:
                        # No cap is full: the worker pool tries this company again.
                        raise TransientError(outcome.message)
                    return outcome
                reservation = outcome.reservation
            if reservation.status not in _UNUSED_STATES:
                if reservation.amounts != price:
                    raise ConflictError(
                        f"{attempt.key} was asked for at another price; it is the same pull until "
                        "the next stretch of time begins"
                    )
                break
        return LookupPayment(depth=depth)  # paid for earlier today

    def _build_key(self, company: CompanyId, depth: Depth, now: datetime, price: int) -> str:
        if self.pull_id is not None:
            return build_pull_key(self.pull_id(company, depth, now))
        day = compute_window(WindowKind.DAY, now, reset=self.reset).start
        return f"look/{company}/{day:%Y%m%dT%H%M}/{depth}/{price}"


def build_pull_key(job: PullJobId) -> str:
    """Return what a pull's units are reserved under: the same pull is paid for once."""
    return f"pull/{job}"


async def find_paid(money: BudgetStore, jobs: Iterable[PullJobId]) -> set[PullJobId]:
    """Return the pulls that were paid for, or may have been; a released reservation is none."""
    paid, unknown = set[PullJobId](), set(jobs)
    for number in range(1, _MAX_ATTEMPTS + 1):
        if not unknown:
            break
        keys = {f"{build_pull_key(job)}/{number}": job for job in unknown}
        reservations = await money.find_reservations(list(keys))
        used = {key for key, each in reservations.items() if each.status not in _UNUSED_STATES}
        paid |= {keys[key] for key in used}
        unknown = {keys[key] for key in reservations if key not in used}
    return paid | unknown
