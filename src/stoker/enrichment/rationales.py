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
from stoker.enrichment.shortfalls import LONGEST_REASON
from stoker.enrichment.step_log import Notebook, why_no_answer
from stoker.leads.rationale import Reworded, Rewording, rationale_of, rewording
from stoker.leads.scoring import ScoreRule
from stoker.vendors.client import Answered, Asking

NOBODYS = ""  # the account: an answer is about features, whoever has them


class Rationales:
    """Words the rationales of one tenant's run."""

    def __init__(
        self,
        asking: Asking,
        model: Connector[Rewording, Reworded],
        *,
        rule: ScoreRule,
        run: str,
        ours: Callable[[], bool],
    ) -> None:
        self._asking = asking
        self._model = model
        self._rule = rule
        self._run = run
        self._ours = ours

    async def reworded(self, score: LeadScore, book: Notebook) -> LeadScore:
        """Return a score with its rationale reworded, or as it is, with a remark why.

        Nothing else about it changes. Raises only what the store raises.
        """
        outcome = await self._asking.ask(
            self._model,
            rewording(score, self._rule),
            account=NOBODYS,
            run=self._run,
            ours=self._ours,
        )
        if not isinstance(outcome, Answered):
            _stays(book, why_no_answer(self._model.name, outcome))
            return score
        answer = book.took(Step.SCORE, self._model.name, outcome)
        if answer is None or not answer.text:
            _stays(book, answer.note if answer else "")
            return score
        return replace(score, rationale=rationale_of(answer, score.rationale))


def _stays(book: Notebook, because: str) -> None:
    sentence = f"{Step.SCORE}: its rationale stays in our own words: {because}"
    book.remark(clean_text(sentence)[:LONGEST_REASON])
