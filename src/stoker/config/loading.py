"""Settings from their sources, weakest first: defaults, stoker.toml, .env, environment, flags.

How a source is read stands in `config.sources`, which value counts in `config.merging`; here the
whole is put together and held against itself. Nothing looks at this process's environment; wiring
hands it in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from stoker.config import make_believe
from stoker.config.merging import Merged, merged
from stoker.config.sections import CONNECTORS, KNOWN, Tenancy
from stoker.config.settings import DEFAULT_TENANT, Settings, Tenant, schedule_of
from stoker.config.sources import env_file_values, environment_values, flag_values, toml_values
from stoker.errors import ConfigError

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
    for tenant_id in sorted(known):
        own = settings.for_tenant(tenant_id)
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
