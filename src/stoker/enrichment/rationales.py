"""Rationales in a model's words, asked for when a company has its score.

One question for all companies of a tenant with the same features, through the one way to ask a
vendor. It is a nicety: whatever goes wrong, the rationale stays as it was, nothing is owed for it
and the night is no worse.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from stoker.accounts.model import LeadScore
from stoker.base.types import Step, clean_text
from stoker.budgets.model import Connector
from stoker.enrichment.skipped_steps import MAX_REASON_LENGTH
from stoker.enrichment.step_log import LookupLog, format_missing_answer
from stoker.leads.rationale import (
    RationaleAnswer,
    RationaleQuery,
    build_rationale,
    build_rationale_query,
)
from stoker.leads.settings import ScoreRule
from stoker.vendors.client import VendorClient
from stoker.vendors.model import VendorAnswer

NO_ACCOUNT = ""  # no account: an answer is about features, not about one company


class RationaleWriter:
    """Words the rationales of one tenant's run."""

    def __init__(
        self,
        asking: VendorClient,
        model: Connector[RationaleQuery, RationaleAnswer],
        *,
        rule: ScoreRule,
        run: str,
        ours: Callable[[], bool],
    ) -> None:
        self._client = asking
        self._model = model
        self._rule = rule
        self._run = run
        self._is_owner = ours

    async def reword(self, score: LeadScore, book: LookupLog) -> LeadScore:
        """Return a score with its rationale reworded, or as it is, with a remark why.

        Nothing else about it changes. Raises only what the store raises.
        """
        outcome = await self._client.ask(
            self._model,
            build_rationale_query(score, self._rule),
            account=NO_ACCOUNT,
            run=self._run,
            still_owner=self._is_owner,
        )
        if not isinstance(outcome, VendorAnswer):
            _note_unchanged(book, format_missing_answer(self._model.name, outcome))
            return score
        answer = book.record_answer(Step.SCORE, self._model.name, outcome)
        if answer is None or not answer.text:
            _note_unchanged(book, answer.note if answer else "")
            return score
        return replace(score, rationale=build_rationale(answer, score.rationale))


def _note_unchanged(log: LookupLog, because: str) -> None:
    sentence = f"{Step.SCORE}: its rationale stays in our own words: {because}"
    log.add_note(clean_text(sentence)[:MAX_REASON_LENGTH])
