"""Words of a command that say nothing, as an unset variable of a shell leaves them.

Taken for a flag left out, such a word would start something else than was meant: everything
instead of one thing, something new instead of something again. So none is taken.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from stoker.errors import ConfigError

FREE_TEXT = frozenset({"--reason", "--name", "--inject"})  # options that may well say nothing
_OPTION = re.compile(r"(--?[A-Za-z][A-Za-z-]*)(?:=(.*))?", re.DOTALL)


def refuse_empty(words: Sequence[str]) -> None:
    """Raise ConfigError when a word, or the value an option brings along, is empty."""
    option = ""  # that the next word may be the value of
    for word in words:
        given = _OPTION.fullmatch(word)
        option, value = (given[1], given[2]) if given else (option, word)
        if value is None:
            continue
        if not value.strip() and option not in FREE_TEXT:
            what = option or "a word of the command"
            raise ConfigError(
                f"{what} is empty, as an unset variable leaves it; say what is meant, or leave "
                "it out"
            )
        option = ""
