"""Which of several given values counts, and what is wrong with those that cannot be used.

Each given value is matched to the setting it speaks of and read; a stronger source replaces a
weaker one. Every problem becomes one line: where it stands, what was given, what is allowed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from stoker.config.explained import Explained
from stoker.config.sections import KNOWN, SECTIONS, TENANT_KEYS
from stoker.config.sources import Given
from stoker.config.values import MASK
from stoker.core.model import TenantId, tenant_id
from stoker.errors import ConfigError

# Read by the command line and by the assembly themselves; the second is for tests only.
NOT_SETTINGS = ("STOKER_DEBUG", "STOKER_TEST_CLOCK_AHEAD_S")
_LONGEST_SHOWN = 80
_NAMES = {name: key for key, about in KNOWN.items() for name in about.env}


@dataclass(slots=True, kw_only=True)
class Merged:
    """What the sources say, put together."""

    values: dict[str, Any] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)  # also of `tenants.ID.…`
    tenants: dict[TenantId, dict[str, Any]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def merged(
    *,
    file: Iterable[Given],
    env_file: Iterable[Given],
    environment: Iterable[Given],
    flags: Iterable[Given],
) -> Merged:
    """Put the sources together, weakest first as they are named here."""
    found = Merged()
    _take_keys(file, found)
    _take_names(env_file, found)
    _take_names(environment, found)
    _take_keys(flags, found)
    return found


def _take_keys(givens: Iterable[Given], found: Merged) -> None:
    """Take values given by dotted key."""
    unknown: set[str] = set()
    for given in givens:
        if any(given.key.startswith(f"{table}.") for table in unknown):
            continue  # one line about a misspelt table is enough
        if given.key == "tenants" or given.key.startswith("tenants."):
            _take_tenant(given, found)
        elif given.value == {} and given.typed:
            if given.key not in SECTIONS:
                unknown.add(given.key)
                near = _near(given.key, [*SECTIONS, "tenants"])
                found.problems.append(
                    f"{given.origin}: there is no table [{_on_one_line(given.key)}]{near}"
                )
        elif given.key in KNOWN:
            _read(given, key=given.key, about=KNOWN[given.key], found=found.values, into=found)
        elif given.key in SECTIONS:
            found.problems.append(
                f"{given.origin}: {given.key} is a table of settings; write [{given.key}] "
                "and its settings below"
            )
        else:
            unknown_key = _on_one_line(given.key) + _near(given.key, KNOWN)
            found.problems.append(f"{given.origin}: there is no setting {unknown_key}")


def _take_tenant(given: Given, found: Merged) -> None:
    _, _, rest = given.key.partition(".")
    whose, _, key = rest.partition(".")
    if not key and given.value != {}:
        found.problems.append(f"{given.origin}: tenants are tables; write [tenants.ID]")
        return
    if not whose:
        return
    try:
        tenant = tenant_id(whose)
    except ConfigError as error:
        found.problems.append(f"{given.origin}: {error}")
        return
    said = found.tenants.setdefault(tenant, {})
    if given.value == {} and given.typed and (not key or key in SECTIONS):
        return
    if key not in TENANT_KEYS:
        near = _near(key, TENANT_KEYS)
        installation = " for one tenant alone" if key in KNOWN else ""
        found.problems.append(f"{given.origin}: there is no setting {key!r}{installation}{near}")
        return
    # A tenant's own zone is its schedule's zone.
    place = "scheduling.timezone" if key == "timezone" else key
    _read(given, key=place, about=TENANT_KEYS[key], found=said, into=found, name=given.key)
    found.origins[f"tenants.{tenant}.{place}"] = given.origin


def _take_names(givens: Iterable[Given], found: Merged) -> None:
    """Take values given by environment name. An empty one counts as not given."""
    by_name = {given.key: given for given in givens if given.value.strip()}
    for key, about in KNOWN.items():
        present = [by_name[name] for name in about.env if name in by_name]
        for given in present:
            _read(given, key=key, about=about, found=found.values, into=found)
        read = {repr(_value(given, about)) for given in present}
        if len(read) > 1:
            names = " and ".join(f"{given.key} ({_shown(given.value, about)})" for given in present)
            found.problems.append(
                f"{present[0].origin}: {names} are two names of {key} and differ; keep one"
            )
    for name in by_name:
        if name not in _NAMES and name not in NOT_SETTINGS and _means_us(name):
            near = _near(name, _NAMES)
            found.problems.append(f"{by_name[name].origin}: {name} is no setting{near}")


def _read(
    given: Given,
    *,
    key: str,
    about: Explained,
    found: dict[str, Any],
    into: Merged,
    name: str = "",
) -> None:
    try:
        found[key] = about.kind.read(given.value, given.typed)
    except ValueError:
        why = f"allowed: {about.kind.allowed}"
    except ConfigError as error:
        why = str(error)
    else:
        into.origins[name or key] = given.origin
        return
    shown = _shown(given.value, about)
    into.problems.append(f"{given.origin}: {name or key} is {shown}; {why}")


def _value(given: Given, about: Explained) -> Any:
    try:
        return about.kind.read(given.value, given.typed)
    except (ValueError, ConfigError):
        return None


def _shown(value: object, about: Explained) -> str:
    if about.kind.secret:
        return MASK
    text = _on_one_line(about.kind.shown(json.dumps(value, ensure_ascii=False, default=str)))
    return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "…"


def _on_one_line(text: str) -> str:
    # Some characters end a line or hide text without being control characters to JSON.
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text
    )


def _means_us(name: str) -> bool:
    ours = any(name.startswith(f"STOKER_{section}_".upper()) for section in SECTIONS)
    return ours or (name.startswith(("STOKER_", "SCHED_")) and bool(_near(name, _NAMES)))


def _near(word: str, known: Iterable[str] | Mapping[str, object]) -> str:
    match = get_close_matches(word, list(known), n=1, cutoff=0.75)
    return f"; did you mean {match[0]}?" if match else ""
