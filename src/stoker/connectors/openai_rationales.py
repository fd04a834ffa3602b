"""OpenAI: a rationale put into a model's words, within a promise much smaller than a page's.

What is asked and what may stand is `llm_rationales`' business.
"""

from __future__ import annotations

from collections.abc import Mapping

from stoker.connectors.llm_rationales import INSTRUCTIONS, SCHEMA, SCHEMA_NAME, read_rationale
from stoker.connectors.openai_responses import NAME, Prices, Responses, Said, Wanted
from stoker.connectors.vendor import Vendor
from stoker.core.rationales import Reworded, Rewording
from stoker.sources import Done, Health

MOST_OUT = 600  # tokens: two sentences, and what a model thinks before them
THINKS_LONG = ("medium", "high")  # which would use up the room for the answer


class OpenAiRationales:
    """Words rationales, with the model that makes facts of pages, which need not think for long."""

    name = NAME

    def __init__(
        self, vendor: Vendor, *, model: str, effort: str = "low", prices: Prices | None = None
    ) -> None:
        self._model = Responses(
            vendor,
            model=model,
            max_output_tokens=MOST_OUT,
            effort="low" if effort in THINKS_LONG else effort,
            prices=prices,
        )

    def price(self, question: Rewording) -> Mapping[str, int]:
        return self._model.price(_wanted(question))

    async def ask(self, question: Rewording, *, key: str) -> Done[Reworded]:
        done = await self._model.ask(_wanted(question))
        return Done(answer=_answer(done.answer, question), cost=done.cost, quota=done.quota)

    async def check(self) -> Health:
        return await self._model.check()


def _wanted(question: Rewording) -> Wanted:
    return Wanted(
        instructions=INSTRUCTIONS, data=question.told, schema_name=SCHEMA_NAME, schema=SCHEMA
    )


def _answer(said: Said, question: Rewording) -> Reworded:
    if said.without_words:
        return Reworded(note=said.without_words)
    return read_rationale(said.text, question)
