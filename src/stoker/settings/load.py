"""Loads settings, weakest source first: defaults, stoker.toml, .env, environment, flags.

Each value is matched to its setting and read; a stronger source replaces a weaker one. Every
problem becomes one line: where it is, what was given, what is allowed. The caller passes the
environment, and the tenants that the store has: what a tenant sets for itself is in settings alone;
the store has its name and whether it is active. One switched off in either is switched off.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from stoker.base.errors import ConfigError
from stoker.base.types import TenantId, get_tenant_order, parse_tenant_id
from stoker.config.fields import MASK, FieldInfo
from stoker.config.sources import (
    RawValue,
    read_env_file,
    read_environment,
    read_flags,
    read_toml,
)
from stoker.settings import (
    DEFAULT_TENANT,
    FIELDS,
    SECTIONS,
    TENANT_KEYS,
    Settings,
    Tenant,
)
from stoker.settings.sandbox import ORIGIN, apply_sandbox, find_sandbox_contradictions

if TYPE_CHECKING:
    from stoker.tenants import model

MAX_PROBLEMS = 20  # lines of problems a person will read

# Read by the command line and by `app` themselves; the second is for tests only.
NOT_SETTINGS = ("STOKER_DEBUG", "STOKER_TEST_CLOCK_AHEAD_S")

_MAX_SHOWN = 80

_KEYS_BY_ENV = {name: key for key, about in FIELDS.items() for name in about.env}


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
    merged = _MergedValues()
    merged.add_by_key(read_toml(file) if file else [])
    merged.add_by_env_name(read_env_file(env_file) if env_file else [])
    merged.add_by_env_name(read_environment(environment))
    merged.add_by_key(read_flags(flags))
    _raise_problems(merged.problems)
    settings = Settings().with_values(merged.values, merged.origins)
    settings = replace(settings, tenants=merged.build_tenants(settings))
    _raise_problems(list(_find_contradictions(settings)))
    return apply_sandbox(settings)


def add_stored_tenants(settings: Settings, stored: Sequence[model.Tenant]) -> Settings:
    """Return the settings with every stored tenant among theirs.

    The tenant "default", there only because settings name none, is removed if the store has any.
    """
    if not stored:
        return settings
    tenants = {
        each.id: Tenant(id=each.id, name=each.name or each.id, enabled=each.active)
        for each in stored
    }
    for tenant in settings.tenants:
        if _is_placeholder(settings, tenant):
            continue
        if (other := tenants.get(tenant.id)) is not None:
            name = tenant.name if tenant.name != tenant.id else other.name
            tenant = replace(tenant, name=name, enabled=tenant.enabled and other.enabled)
        tenants[tenant.id] = tenant
    in_order = sorted(tenants, key=get_tenant_order)
    return apply_sandbox(replace(settings, tenants=tuple(tenants[id_] for id_ in in_order)))


def _is_placeholder(settings: Settings, tenant: Tenant) -> bool:
    own = f"tenants.{tenant.id}."
    return (
        tenant.id == DEFAULT_TENANT
        and settings.tenancy.default_tenant_id is None
        and all(
            origin.startswith(ORIGIN)
            for key, origin in settings.origins.items()
            if key.startswith(own)
        )
    )


class _MergedValues:
    """What the sources give, put together; a source added later is stronger."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.origins: dict[str, str] = {}  # also of `tenants.ID.…`
        self.tenants: dict[TenantId, dict[str, Any]] = {}
        self.problems: list[str] = []

    def add_by_key(self, givens: Iterable[RawValue]) -> None:
        """Add values given by dotted key."""
        unknown: set[str] = set()
        for given in givens:
            if any(given.key.startswith(f"{table}.") for table in unknown):
                continue  # one line about a misspelt table is enough
            if given.key == "tenants" or given.key.startswith("tenants."):
                self._add_for_tenant(given)
            elif given.value == {} and given.typed:
                if given.key not in SECTIONS:
                    unknown.add(given.key)
                    near = _suggest(given.key, [*SECTIONS, "tenants"])
                    self._add_problem(given, f"there is no table [{_to_one_line(given.key)}]{near}")
            elif given.key in FIELDS:
                self._read(given, given.key, FIELDS[given.key], self.values)
            elif given.key in SECTIONS:
                self._add_problem(
                    given,
                    f"{given.key} is a table of settings; write [{given.key}] "
                    "and its settings below",
                )
            else:
                near = _suggest(given.key, FIELDS)
                self._add_problem(given, f"there is no setting {_to_one_line(given.key)}{near}")

    def add_by_env_name(self, givens: Iterable[RawValue]) -> None:
        """Add values given by environment name. An empty one counts as not given."""
        by_name = {given.key: given for given in givens if given.value.strip()}
        for key, about in FIELDS.items():
            present = [by_name[name] for name in about.env if name in by_name]
            read = {repr(self._read(given, key, about, self.values)) for given in present}
            if len(read) > 1:
                names = " and ".join(
                    f"{given.key} ({_format_given(given.value, about)})" for given in present
                )
                self._add_problem(
                    present[0], f"{names} are two names of {key} and differ; keep one"
                )
        for name, given in by_name.items():
            if name not in _KEYS_BY_ENV and name not in NOT_SETTINGS and _is_stoker_name(name):
                self._add_problem(given, f"{name} is no setting{_suggest(name, _KEYS_BY_ENV)}")

    def build_tenants(self, settings: Settings) -> tuple[Tenant, ...]:
        """Return the configured tenants; without any there is one, by the default's name."""
        if not self.tenants:
            only = settings.tenancy.default_tenant_id or DEFAULT_TENANT
            return (Tenant(id=only, name=only),)
        return tuple(
            Tenant(
                id=tenant,
                name=own.get("name", tenant),
                enabled=own.get("enabled", True),
                overrides=MappingProxyType({key: own[key] for key in own if key in FIELDS}),
            )
            for tenant, own in sorted(
                self.tenants.items(), key=lambda each: get_tenant_order(each[0])
            )
        )

    def _add_for_tenant(self, given: RawValue) -> None:
        _, _, rest = given.key.partition(".")
        tenant_id, _, key = rest.partition(".")
        if not key and given.value != {}:
            self._add_problem(given, "tenants are tables; write [tenants.ID]")
            return
        if not tenant_id:
            return
        try:
            tenant = parse_tenant_id(tenant_id)
        except ConfigError as error:
            self._add_problem(given, str(error))
            return
        own = self.tenants.setdefault(tenant, {})
        if given.value == {} and given.typed and (not key or key in SECTIONS):
            return
        if key not in TENANT_KEYS:
            near = _suggest(key, TENANT_KEYS)
            installation = " for one tenant alone" if key in FIELDS else ""
            self._add_problem(given, f"there is no setting {key!r}{installation}{near}")
            return
        # A tenant's own zone is its schedule's zone.
        place = "scheduling.timezone" if key == "timezone" else key
        self._read(given, place, TENANT_KEYS[key], own, name=given.key)
        self.origins[f"tenants.{tenant}.{place}"] = given.origin

    def _read(
        self, given: RawValue, key: str, about: FieldInfo, values: dict[str, Any], name: str = ""
    ) -> Any:
        """Read a value and return it; None, and a problem, when it is not allowed."""
        try:
            values[key] = about.kind.read(given.value, given.typed)
        except ValueError:
            reason = f"allowed: {about.kind.allowed}"
        except ConfigError as error:
            reason = str(error)
        else:
            self.origins[name or key] = given.origin
            return values[key]
        shown = _format_given(given.value, about)
        self._add_problem(given, f"{name or key} is {shown}; {reason}")
        return None

    def _add_problem(self, given: RawValue, problem: str) -> None:
        self.problems.append(f"{given.origin}: {problem}")


def _raise_problems(problems: Sequence[str]) -> None:
    if problems:
        more = len(problems) - MAX_PROBLEMS
        rest = [f"… and {more} more"] if more > 0 else []
        raise ConfigError(*problems[:MAX_PROBLEMS], *rest)


def _find_contradictions(settings: Settings) -> Iterator[str]:
    """Yield what cannot be true at once, each as one line."""
    if settings.storage.backend == "postgres" and settings.storage.postgres_url is None:
        name = FIELDS["storage.postgres_url"].env[0]
        yield (
            f"{settings.get_origin('storage.backend')}: storage.backend is postgres, but "
            f"storage.postgres_url is not set; set {name}"
        )
    known = [tenant.id for tenant in settings.tenants]
    default, key = settings.tenancy.default_tenant_id, "tenancy.default_tenant_id"
    if default is not None and default not in known:
        yield (
            f"{settings.get_origin(key)}: {key} names {default}, which is not configured; "
            f"configured: {', '.join(known)}"
        )
    for name in settings.vendors:
        try:
            settings.get_connector(name).to_rate()
        except ConfigError as error:
            yield f"{settings.get_origin(f'{name}.calls')}: {name}.calls, burst and share: {error}"
    yield from find_sandbox_contradictions(settings)
    by_tenant = (line for tenant in known for line in _check_tenant(settings, tenant))
    yield from dict.fromkeys(by_tenant)  # what several tenants share is one line


def _check_tenant(settings: Settings, tenant: TenantId) -> list[str]:
    """Return what cannot be true at once for one tenant."""
    try:
        own = settings.for_tenant(tenant)
    except ConfigError as error:
        return list(error.args)
    try:
        own.scheduling.build_schedule()
    except ConfigError as error:
        return [f"{own.get_origin('scheduling.mode')}: {error}"]
    return []


def _format_given(value: object, about: FieldInfo) -> str:
    if about.kind.secret:
        return MASK
    try:
        shown = json.dumps(value, ensure_ascii=False, default=str)
    except ValueError:  # Python writes no number of so many digits
        return "a number of thousands of digits"
    text = _to_one_line(about.kind.format(shown))
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


def _suggest(word: str, known: Iterable[str]) -> str:
    match = get_close_matches(word, list(known), n=1, cutoff=0.75)
    return f"; did you mean {match[0]}?" if match else ""
