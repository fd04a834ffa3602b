"""Loads settings, weakest source first: defaults, stoker.toml, .env, environment, flags.

Each value is matched to its setting and read; a stronger source replaces a weaker one. Every
problem becomes one line: where it is, what was given, what is allowed. The caller passes the
environment.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from stoker.base.errors import ConfigError
from stoker.base.types import TenantId, parse_tenant_id
from stoker.config.fields import MASK, FieldInfo
from stoker.config.sources import (
    RawValue,
    read_env_file,
    read_environment,
    read_flags,
    read_toml,
)
from stoker.settings import (
    CONNECTORS,
    DEFAULT_TENANT,
    FIELDS,
    SECTIONS,
    TENANT_KEYS,
    Settings,
    Tenant,
)
from stoker.settings import sandbox as make_believe

if TYPE_CHECKING:
    from stoker.config.settings import TenancySettings

# Read by the command line and by the assembly themselves; the second is for tests only.
NOT_SETTINGS = ("STOKER_DEBUG", "STOKER_TEST_CLOCK_AHEAD_S")

_MAX_SHOWN = 80

_KEYS_BY_ENV = {name: key for key, about in FIELDS.items() for name in about.env}


@dataclass(slots=True, kw_only=True)
class MergedValues:
    """What the sources say, put together."""

    values: dict[str, Any] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)  # also of `tenants.ID.…`
    tenants: dict[TenantId, dict[str, Any]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def merge_sources(
    *,
    file: Iterable[RawValue],
    env_file: Iterable[RawValue],
    environment: Iterable[RawValue],
    flags: Iterable[RawValue],
) -> MergedValues:
    """Put the sources together, weakest first as they are named here."""
    found = MergedValues()
    _add_by_key(file, found)
    _add_by_env_name(env_file, found)
    _add_by_env_name(environment, found)
    _add_by_key(flags, found)
    return found


def _add_by_key(givens: Iterable[RawValue], found: MergedValues) -> None:
    """Take values given by dotted key."""
    unknown: set[str] = set()
    for given in givens:
        if any(given.key.startswith(f"{table}.") for table in unknown):
            continue  # one line about a misspelt table is enough
        if given.key == "tenants" or given.key.startswith("tenants."):
            _add_for_tenant(given, found)
        elif given.value == {} and given.typed:
            if given.key not in SECTIONS:
                unknown.add(given.key)
                near = _suggest(given.key, [*SECTIONS, "tenants"])
                found.problems.append(
                    f"{given.origin}: there is no table [{_to_one_line(given.key)}]{near}"
                )
        elif given.key in FIELDS:
            _read_into(
                given, key=given.key, about=FIELDS[given.key], found=found.values, into=found
            )
        elif given.key in SECTIONS:
            found.problems.append(
                f"{given.origin}: {given.key} is a table of settings; write [{given.key}] "
                "and its settings below"
            )
        else:
            unknown_key = _to_one_line(given.key) + _suggest(given.key, FIELDS)
            found.problems.append(f"{given.origin}: there is no setting {unknown_key}")


def _add_for_tenant(given: RawValue, found: MergedValues) -> None:
    _, _, rest = given.key.partition(".")
    whose, _, key = rest.partition(".")
    if not key and given.value != {}:
        found.problems.append(f"{given.origin}: tenants are tables; write [tenants.ID]")
        return
    if not whose:
        return
    try:
        tenant = parse_tenant_id(whose)
    except ConfigError as error:
        found.problems.append(f"{given.origin}: {error}")
        return
    said = found.tenants.setdefault(tenant, {})
    if given.value == {} and given.typed and (not key or key in SECTIONS):
        return
    if key not in TENANT_KEYS:
        near = _suggest(key, TENANT_KEYS)
        installation = " for one tenant alone" if key in FIELDS else ""
        found.problems.append(f"{given.origin}: there is no setting {key!r}{installation}{near}")
        return
    # A tenant's own zone is its schedule's zone.
    place = "scheduling.timezone" if key == "timezone" else key
    _read_into(given, key=place, about=TENANT_KEYS[key], found=said, into=found, name=given.key)
    found.origins[f"tenants.{tenant}.{place}"] = given.origin


def _add_by_env_name(givens: Iterable[RawValue], found: MergedValues) -> None:
    """Take values given by environment name. An empty one counts as not given."""
    by_name = {given.key: given for given in givens if given.value.strip()}
    for key, about in FIELDS.items():
        present = [by_name[name] for name in about.env if name in by_name]
        for given in present:
            _read_into(given, key=key, about=about, found=found.values, into=found)
        read = {repr(_read_or_none(given, about)) for given in present}
        if len(read) > 1:
            names = " and ".join(
                f"{given.key} ({_format_given(given.value, about)})" for given in present
            )
            found.problems.append(
                f"{present[0].origin}: {names} are two names of {key} and differ; keep one"
            )
    for name in by_name:
        if name not in _KEYS_BY_ENV and name not in NOT_SETTINGS and _is_stoker_name(name):
            near = _suggest(name, _KEYS_BY_ENV)
            found.problems.append(f"{by_name[name].origin}: {name} is no setting{near}")


def _read_into(
    given: RawValue,
    *,
    key: str,
    about: FieldInfo,
    found: dict[str, Any],
    into: MergedValues,
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
    shown = _format_given(given.value, about)
    into.problems.append(f"{given.origin}: {name or key} is {shown}; {why}")


def _read_or_none(given: RawValue, about: FieldInfo) -> Any:
    try:
        return about.kind.read(given.value, given.typed)
    except (ValueError, ConfigError):
        return None


def _format_given(value: object, about: FieldInfo) -> str:
    if about.kind.secret:
        return MASK
    text = _to_one_line(about.kind.format(json.dumps(value, ensure_ascii=False, default=str)))
    return text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + "…"


def _to_one_line(text: str) -> str:
    # Some characters end a line or hide text without being control characters to JSON.
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text
    )


def _is_stoker_name(name: str) -> bool:
    ours = any(name.startswith(f"STOKER_{section}_".upper()) for section in SECTIONS)
    return ours or (name.startswith(("STOKER_", "SCHED_")) and bool(_suggest(name, _KEYS_BY_ENV)))


def _suggest(word: str, known: Iterable[str] | Mapping[str, object]) -> str:
    match = get_close_matches(word, list(known), n=1, cutoff=0.75)
    return f"; did you mean {match[0]}?" if match else ""


MAX_PROBLEMS = 20  # lines of trouble a person will read


def load_settings(
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
    found = merge_sources(
        file=read_toml(file) if file else [],
        env_file=read_env_file(env_file) if env_file else [],
        environment=read_environment(environment),
        flags=read_flags(flags),
    )
    _raise_problems(found.problems)
    settings = Settings().with_values(found.values, found.origins)
    settings = replace(settings, tenants=_build_tenants(found, settings.tenancy))
    _raise_problems(list(find_contradictions(settings)))
    return make_believe.apply_sandbox(settings)


def _raise_problems(problems: Sequence[str]) -> None:
    if problems:
        more = len(problems) - MAX_PROBLEMS
        rest = [f"… and {more} more"] if more > 0 else []
        raise ConfigError("\n".join([*problems[:MAX_PROBLEMS], *rest]))


def find_contradictions(settings: Settings) -> Iterator[str]:
    """Yield what cannot be true at once, each as one line."""
    storage, tenancy = settings.storage, settings.tenancy
    if storage.backend == "postgres" and storage.postgres_url is None:
        name = FIELDS["storage.postgres_url"].env[0]
        yield (
            f"{settings.get_origin('storage.backend')}: storage.backend is postgres, but "
            f"storage.postgres_url is not set; set {name}"
        )
    known = {tenant.id for tenant in settings.tenants}
    named = {"tenancy.default_tenant_id": (tenancy.default_tenant_id,)}
    named |= {
        f"scheduling.tenant_{way}": settings.get_value(f"scheduling.tenant_{way}")
        for way in ("include", "exclude")
    }
    for key, tenants in named.items():
        for tenant in tenants:
            if tenant is not None and tenant not in known:
                yield (
                    f"{settings.get_origin(key)}: {key} names {tenant}, which is not configured; "
                    f"configured: {', '.join(sorted(known))}"
                )
    for name in CONNECTORS:
        try:
            settings.get_connector(name).to_rate()
        except ConfigError as error:
            yield f"{settings.get_origin(f'{name}.calls')}: {name}.calls, burst and share: {error}"
    yield from make_believe.find_sandbox_contradictions(settings)
    told = set()
    for name in sorted(known):
        try:
            lines = list(_find_tenant_contradictions(settings.for_tenant(name)))
        except ConfigError as error:
            lines = str(error).splitlines()
        for line in lines:
            if line not in told:
                told.add(line)
                yield line


def _find_tenant_contradictions(own: Settings) -> Iterator[str]:
    """Yield what cannot be true at once for one tenant."""
    try:
        own.scheduling.build_schedule()
    except ConfigError as error:
        yield f"{own.get_origin('scheduling.mode')}: {error}"


def _build_tenants(found: MergedValues, tenancy: TenancySettings) -> tuple[Tenant, ...]:
    if not found.tenants:
        only = tenancy.default_tenant_id or DEFAULT_TENANT
        return (Tenant(id=only, name=only),)
    return tuple(
        Tenant(
            id=tenant,
            name=said.get("name", tenant),
            enabled=said.get("enabled", True),
            overrides=MappingProxyType({key: said[key] for key in said if key in FIELDS}),
        )
        for tenant, said in sorted(found.tenants.items())
    )
