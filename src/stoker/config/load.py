"""Which of several given values counts, and what is wrong with those that cannot be used.

Each given value is matched to the setting it speaks of and read; a stronger source replaces a
weaker one. Every problem becomes one line: where it stands, what was given, what is allowed.

Settings from their sources, weakest first: defaults, stoker.toml, .env, environment, flags.

How a source is read stands in `config.sources`, which value counts in `config.merging`; here the
whole is put together and held against itself. Nothing looks at this process's environment; wiring
hands it in.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from stoker.base.errors import ConfigError
from stoker.base.types import TenantId, tenant_id
from stoker.config import sandbox as make_believe
from stoker.config.fields import MASK, Explained
from stoker.config.sources import (
    Given,
    env_file_values,
    environment_values,
    flag_values,
    toml_values,
)
from stoker.settings import (
    CONNECTORS,
    DEFAULT_TENANT,
    KNOWN,
    SECTIONS,
    TENANT_KEYS,
    Settings,
    Tenant,
    schedule_of,
)

if TYPE_CHECKING:
    from stoker.settings import Tenancy

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


MOST_PROBLEMS = 20  # lines of trouble a person will read


def load(
    *,
    file: Path | None,
    env_file: Path | None,
    environment: Mapping[str, str],
    flags: Mapping[str, str],
) -> Settings:
    """Read settings from these sources, a later one stronger than an earlier one.

    A file that is None is not read. Raises ConfigError with one line for every problem: where it
    is, what was given, what is allowed.
    """
    found = merged(
        file=toml_values(file) if file else [],
        env_file=env_file_values(env_file) if env_file else [],
        environment=environment_values(environment),
        flags=flag_values(flags),
    )
    settings = Settings().with_values(found.values, found.origins)
    settings = replace(settings, tenants=_tenants(found, settings.tenancy))
    problems = list(found.problems) or list(contradictions(settings))
    if problems:
        more = (
            f"\n… and {len(problems) - MOST_PROBLEMS} more" if len(problems) > MOST_PROBLEMS else ""
        )
        raise ConfigError("\n".join(problems[:MOST_PROBLEMS]) + more)
    return make_believe.rehearsed(settings)


def contradictions(settings: Settings) -> Iterator[str]:
    """Yield what cannot be true at once, each as one line."""
    storage, tenancy = settings.storage, settings.tenancy
    if storage.backend == "postgres" and storage.postgres_url is None:
        name = KNOWN["storage.postgres_url"].env[0]
        yield (
            f"{settings.origin('storage.backend')}: storage.backend is postgres, but "
            f"storage.postgres_url is not set; set {name}"
        )
    known = {tenant.id for tenant in settings.tenants}
    named = {"tenancy.default_tenant_id": (tenancy.default_tenant_id,)}
    named |= {
        f"scheduling.tenant_{way}": settings.value(f"scheduling.tenant_{way}")
        for way in ("include", "exclude")
    }
    for key, tenants in named.items():
        for tenant in tenants:
            if tenant is not None and tenant not in known:
                yield (
                    f"{settings.origin(key)}: {key} names {tenant}, which is not configured; "
                    f"configured: {', '.join(sorted(known))}"
                )
    for name in CONNECTORS:
        try:
            settings.connector(name).rate()
        except ConfigError as error:
            yield f"{settings.origin(f'{name}.calls')}: {name}.calls, burst and share: {error}"
    yield from make_believe.contradictions(settings)
    told = set()
    for name in sorted(known):
        own = settings.for_tenant(name)
        for line in _impossible(own):
            if line not in told:
                told.add(line)
                yield line


def _impossible(own: Settings) -> Iterator[str]:
    """Yield what cannot be true at once for one tenant."""
    try:
        schedule_of(own.scheduling)
    except ConfigError as error:
        yield f"{own.origin('scheduling.mode')}: {error}"
    try:
        own.score.rule()
    except ConfigError as error:
        yield f"{own.origin('score.high_from')}: score: {error}"
    try:
        own.discovery.rule()
    except ConfigError as error:
        yield f"{own.origin('discovery.role_weight')}: discovery: {error}"


def _tenants(found: Merged, tenancy: Tenancy) -> tuple[Tenant, ...]:
    if not found.tenants:
        only = tenancy.default_tenant_id or DEFAULT_TENANT
        return (Tenant(id=only, name=only),)
    return tuple(
        Tenant(
            id=tenant,
            name=said.get("name", tenant),
            enabled=said.get("enabled", True),
            overrides=MappingProxyType({key: said[key] for key in said if key in KNOWN}),
        )
        for tenant, said in sorted(found.tenants.items())
    )
