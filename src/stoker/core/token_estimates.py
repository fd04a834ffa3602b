"""How many tokens a text can be at most, before anybody counts them: what a call is promised for.

No vocabulary is needed or asked for. Plain words take a token for three letters at most; whatever
is not plain words is taken for a token a byte, so that no page can be longer than its promise.
"""

from __future__ import annotations

import json
import re

from stoker.core.model import Json

BYTES_A_TOKEN = 3
# Words as people write them, with the one space before them that belongs to their first token.
_PLAIN = re.compile(r" ?(?:[A-Z]?[a-z]{1,24}|[A-Z]{1,24})(?![A-Za-z])")
_AROUND = 50  # tokens for what the vendor puts around each of our texts


def most_tokens(*texts: str) -> int:
    """Return a number of tokens that these texts do not exceed, each sent as one message."""
    return sum(_most(text) + _AROUND for text in texts)


def most_schema_tokens(schema: Json) -> int:
    """Return the same for a schema: models read it as text, in a form we do not see."""
    return 2 * most_tokens(json.dumps(schema))


def _most(text: str) -> int:
    plain = strange = 0
    end = 0
    for word in _PLAIN.finditer(text):
        strange += _bytes(text[end : word.start()])
        plain += -(-(word.end() - word.start()) // BYTES_A_TOKEN)
        end = word.end()
    return plain + strange + _bytes(text[end:])


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "replace"))
