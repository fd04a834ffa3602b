"""One company's night from beginning to end: look, verify, score, and write it down together.

A failing company fails alone: whatever goes wrong with it becomes its end, with the reason. Only
what would fail for everybody, like a store that is away, is passed on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from stoker.accounts.contacts import to_verify, verified
from stoker.accounts.facts import Field, Finding, best
from stoker.accounts.icp import IcpRule
from stoker.accounts.model import Company, Dossier, Verdict
from stoker.accounts.websites import FoundPage
from stoker.base.clock import Clock
from stoker.base.errors import ConfigError, PermanentError, TransientError, UncertainError
from stoker.base.types import Depth, Step, clean_text
from stoker.budgets.charges import Refused
from stoker.context import Store
from stoker.enrichment.enrich import CompanyLook, Looked
from stoker.enrichment.model import Unit, UnitState, looks
from stoker.enrichment.pull_units import CONNECTOR, Look, Looking
from stoker.enrichment.rationales import Rationales
from stoker.enrichment.shortfalls import LONGEST_REASON, OWED, Lack, Shortfall, owed_after, owed_by
from stoker.enrichment.step_log import Notebook
from stoker.enrichment.work_queue import HandingOut
from stoker.heat.learn import Learning
from stoker.leads.scoring import ScoreRule, scored
from stoker.vendors.client import Answered
from stoker.vendors.email_batches import Batching

EVERYBODYS = (TransientError, UncertainError, ConfigError)
"""What a company's night raises only because of our own store or settings: nobody would get on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NightRule:
    """What a tenant looks for, and how good a lead is."""

    icp: IcpRule
    score: ScoreRule


class Sought:
    """What a search says of a company, asked for only once a look at it is promised."""

    def __init__(self, look: CompanyLook, before: Dossier, book: Notebook) -> None:
        self._look = look
        self._before = before
        self._book = book
        self.pages: Sequence[FoundPage] | None = None  # None: nobody has been asked yet

    async def finds(self, depth: Depth) -> bool:
        """Say whether there is anything to look at this deep: a site, or what was found."""
        if self._before.company.website:
            return True
        found = await self._look.sought(self._before, depth, self._book)
        self.pages = found or ()
        return found is not None


class CompanyNight:
    """Carries out units of one tenant's run."""

    def __init__(
        self,
        store: Store,
        *,
        look: CompanyLook,
        looking: Looking,
        verifying: Batching | None,
        verifier: str,
        units: HandingOut,
        rule: NightRule,
        steps: Collection[Step],
        run: str,
        clock: Clock,
        learning: Learning | None = None,
        rationales: Rationales | None = None,
    ) -> None:
        self._learning = learning
        self._rationales = rationales
        self._store = store
        self._look = look
        self._looking = looking
        self._verifying = verifying
        self._verifier = verifier
        self._units = units
        self._rule = rule
        self._steps = steps
        self._run = run
        self._clock = clock
        self.room_at: datetime | None = None  # when the first full cap has room again

    async def carry_out(
        self, unit: Unit, *, park: Callable[[], Awaitable[None]]
    ) -> Unit | Refused | None:
        """Work through a unit and write down how it ended; return it so.

        Refused when not even a look can be paid for; then nothing was done and the unit stays
        taken. None when others may have taken us for dead meanwhile: nothing new was begun since,
        and whoever has the unit now knows better. `park` is called once its place is no longer
        needed, only a verdict is awaited. Raises what concerns everybody: a store that is away,
        settings that are wrong.
        """
        book = Notebook(unit, clock=self._clock)
        try:
            before = await self._store.accounts.dossier(unit.company)
            if before is None:
                raise PermanentError("this company is no longer known")
            if before.looked_at is None and not looks(self._steps):
                raise PermanentError("nobody has looked at it yet; a whole night does")
            if not self._units.still_ours():
                return None
            sought = Sought(self._look, before, book)
            look = await self._allowed(unit, sought, book)
            if isinstance(look, Refused):
                return look
            book.spent(CONNECTOR, look.cost)
            if look.depth is not unit.depth:
                because = "a deep look did not fit into what is left; this one is shallow"
                book.shortfalls.append(
                    Shortfall(step=Step.CRAWL, lack=Lack.REFUSED, because=because)
                )
            looked = await self._look.look(before, look.depth, book, searched=sought.pages)
            await park()
            looked = await self._with_verdicts(looked, book)
            looked_at = book.now if looks(self._steps) and look.at_anything else before.looked_at
            dossier = self._dossier(looked, before, book, looked_at=looked_at)
            dossier = await self._reworded(dossier, book)
            ended = self._ended(book)
            if await self._units.finish(ended, dossier):
                await self._remembered(looked, look.depth, before, dossier)
        except EVERYBODYS:
            raise
        except Exception as error:  # noqa: BLE001  # the one place: a fault ends one unit, not all
            ended = await self._poisoned(book, error)
        return ended if self._units.still_ours() else None

    async def _remembered(
        self, looked: Looked, depth: Depth, before: Dossier, after: Dossier
    ) -> None:
        # After what was made of the pages is safe: otherwise a crash in between would leave a
        # site that is unchanged for ever and was never read.
        if looked.visit is not None:
            await self._store.pages.remember_pages(looked.visit.site, looked.visit.seen)
        if self._learning is not None and looks(self._steps):
            await self._learning.looked(
                self._store,
                run=self._run,
                depth=depth,
                visit=looked.visit,
                before=before,
                after=after,
                now=self._clock.now(),
            )

    async def _allowed(self, unit: Unit, sought: Sought, book: Notebook) -> Look | Refused:
        if not looks(self._steps):
            return Look(depth=unit.depth)  # nobody looks: what is known is verified or scored
        look = await self._looking.allowed(
            unit.company, unit.depth, now=self._clock.now(), finds=sought.finds
        )
        if isinstance(look, Look) and not look.at_anything:
            book.remark("its site is not known and nobody could find it, so no look was paid for")
        return look

    def _ended(self, book: Notebook) -> Unit:
        resets = [each.resets_at for each in book.shortfalls if each.resets_at is not None]
        self.room_at = min([*resets, *([self.room_at] if self.room_at else [])], default=None)
        return book.ended()

    async def _with_verdicts(self, looked: Looked, book: Notebook) -> Looked:
        emails = to_verify(looked.contacts)
        if not emails or not looked.wanted or self._verifying is None:
            return looked
        verdicts: dict[str, Verdict] = {}
        with book.step(Step.VERIFY):
            for email, outcome in (await self._verifying.verify(emails)).items():
                said = book.took(Step.VERIFY, self._verifier, outcome)
                if isinstance(outcome, Answered) and said is not None:
                    verdicts[email] = said.verdict
        return replace(looked, contacts=verified(looked.contacts, verdicts))

    def _dossier(
        self, looked: Looked, before: Dossier, book: Notebook, *, looked_at: datetime | None
    ) -> Dossier:
        owed = owed_after(book.shortfalls, before=owed_by(before.notes), steps=self._steps)
        with book.step(Step.SCORE):
            dossier = Dossier(
                company=_grown(looked.company, looked.findings),
                findings=looked.findings,
                contacts=looked.contacts,
                looked_at=looked_at,
                run=self._run,
                extracted_from=looked.extracted_from,
                # Never empty, because what is empty does not replace what was noted before.
                notes={**looked.notes, OWED: owed},
            )
            if Step.SCORE not in self._steps or looked_at is None:
                return dossier
            if _nothing_yet(looked, before, book):
                return dossier
            return replace(dossier, score=scored(dossier, self._rule.icp, self._rule.score))

    async def _reworded(self, dossier: Dossier, book: Notebook) -> Dossier:
        if self._rationales is None or dossier.score is None:
            return dossier
        with book.step(Step.SCORE):
            return replace(dossier, score=await self._rationales.reworded(dossier.score, book))

    async def _poisoned(self, book: Notebook, error: Exception) -> Unit:
        known = isinstance(error, PermanentError)
        because = str(error) if known else f"a fault in Stoker: {type(error).__name__}: {error}"
        ended = replace(
            book.ended(),
            state=UnitState.POISONED,
            reasons=(clean_text(because)[:LONGEST_REASON],),
        )
        await self._units.finish(ended, None)
        return ended


def _nothing_yet(looked: Looked, before: Dossier, book: Notebook) -> bool:
    """Say whether a score would only tell that nobody could be asked; it then waits its turn."""
    silent = not looked.company.website and not looked.findings and before.score is None
    return silent and any(each.lack is not Lack.NEVER for each in book.shortfalls)


def _grown(company: Company, findings: tuple[Finding, ...]) -> Company:
    """Return the company with what was found out about its size."""
    told = best(findings, Field.EMPLOYEES)
    if told is None:
        return company
    low, _, high = told.value.partition("-")
    if not low.isdecimal() or not (high or low).isdecimal():
        return company
    return replace(company, employees=(int(low) + int(high or low)) // 2)
