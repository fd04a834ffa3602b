"""How the make-believe model words a rationale: the sentence it was given, said in other words.

Like a model that does as it is told, it adds nothing. What it was given it finds after a label, and
what is not there it does not word.
"""

from __future__ import annotations

import re

from stoker.sandbox.model_reading import Fact, Facts

_GIVEN = re.compile(r"(?m)^Our sentence: ([^\n]{1,500}?)\.?$")
_BUT = "; but "


def wording_of(text: str) -> Facts:
    """Return a rationale in other words, as a fact; nothing when a text gives none to word."""
    given = _GIVEN.search(text)
    if given is None:
        return {}
    good, _, bad = given[1].partition(_BUT)
    against = f" What speaks against it is that {bad}." if bad else ""
    return {"rationale": (Fact(f"What speaks for this lead: {good}.{against}", given[0]),)}
