"""What a model is asked about a score, and what is made of its answer.

Numbers and our own words go out; what comes back may stand or not by the core's rules. Which
vendor's model that is, and what it costs, is not known here.
"""

from __future__ import annotations

from stoker.connectors.reading import read_json
from stoker.core.model import Json
from stoker.core.picking import words_in
from stoker.core.rationales import LONGEST, LONGEST_READ, Reworded, Rewording, reworded
from stoker.errors import PermanentError

INSTRUCTIONS = f"""\
You tell a salesperson why a sales lead has its score. You are given the score, its features, each
between 0 (speaks against the lead) and 1 (speaks for it) with its weight, and a plain sentence of
ours. Features: industry, whether it is one that is wanted; size, whether the number of employees
fits (0.50: not known); reachable, whether an address works; decision maker, whether somebody who
decides is known; presence, how much its site says; momentum, whether it hires or grows.
Write one or two short English sentences, at most {LONGEST} characters together: first what speaks
most for the lead, then what speaks most against it. Say nothing that does not follow from what you
are given. Better no numbers; any you write must be among those given, written alike. Plain words
only: no lists, markup, links, percentages, numbers in letters, names or advice."""

SCHEMA: Json = {
    "type": "object",
    "properties": {"rationale": {"type": "string"}},
    "required": ["rationale"],
    "additionalProperties": False,
}
SCHEMA_NAME = "lead_rationale"


def read_rationale(text: str, question: Rewording) -> Reworded:
    """Return what may stand of a model's answer, or why nothing may. Never raises."""
    try:
        data = read_json(text.encode("utf-8", "replace"))
    except PermanentError:
        return Reworded(note="the model's answer cannot be read")
    return reworded(words_in(data, "rationale", longest=LONGEST_READ), question)
