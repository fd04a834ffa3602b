"""Settings: one frozen value, read once, every field explained and its origin known.

What there is to set stands in `config.sections`, what a value may be in `config.values`. Where
values come from, and which of several counts, is the business of `config.loading`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any

from stoker.config.attending import Heat, Pulls
from stoker.config.connectors import (
    Boards,
    ConnectorSection,
    DataGov,
    DataGovDownloads,
    Lusha,
    Odoo,
    OpenAi,
    Tavily,
    ZeroBounce,
)
from stoker.config.discovering import Discovery
from stoker.config.sections import (
    CONNECTORS,
    KNOWN,
    Caps,
    Crawl,
    Extract,
    Icp,
    Keys,
    Logging,
    Pacing,
    Retention,
    Sandbox,
    Scheduling,
    Score,
    Storage,
    Tenancy,
)
from stoker.config.touching import Touches
from stoker.config.values import as_json, show
from stoker.core.cadence import Cron, Interval, Schedule, Window
from stoker.core.model import Json, TenantId
from stoker.errors import ConfigError

DEFAULT_TENANT = TenantId("default")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """One configured tenant, and what it sets for itself."""

    id: TenantId
    name: str
    enabled: bool = True
    overrides: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One setting as it may be shown: secrets are masked."""

    key: str
    value: str
    origin: str
    help: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that can be set, and where each value came from."""

    scheduling: Scheduling = field(default_factory=Scheduling)
    storage: Storage = field(default_factory=Storage)
    retention: Retention = field(default_factory=Retention)
    logging: Logging = field(default_factory=Logging)
    caps: Caps = field(default_factory=Caps)
    heat: Heat = field(default_factory=Heat)
    pulls: Pulls = field(default_factory=Pulls)
    pacing: Pacing = field(default_factory=Pacing)
    sandbox: Sandbox = field(default_factory=Sandbox)
    tavily: Tavily = field(default_factory=Tavily)
    openai: OpenAi = field(default_factory=OpenAi)
    lusha: Lusha = field(default_factory=Lusha)
    zerobounce: ZeroBounce = field(default_factory=ZeroBounce)
    odoo: Odoo = field(default_factory=Odoo)
    datagov: DataGov = field(default_factory=DataGov)
    datagov_downloads: DataGovDownloads = field(default_factory=DataGovDownloads)
    boards: Boards = field(default_factory=Boards)
    crawl: Crawl = field(default_factory=Crawl)
    extract: Extract = field(default_factory=Extract)
    score: Score = field(default_factory=Score)
    icp: Icp = field(default_factory=Icp)
    touches: Touches = field(default_factory=Touches)
    discovery: Discovery = field(default_factory=Discovery)
    keys: Keys = field(default_factory=Keys)
    tenancy: Tenancy = field(default_factory=Tenancy)
    tenants: tuple[Tenant, ...] = (Tenant(id=DEFAULT_TENANT, name=str(DEFAULT_TENANT)),)
    origins: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    directory: Path = Path()  # where work is done: what relative paths are relative to

    def value(self, key: str) -> Any:
        """Return the value of a dotted key."""
        section, _, name = key.partition(".")
        return getattr(getattr(self, section), name)

    def origin(self, key: str) -> str:
        """Return where a dotted key's value came from."""
        return self.origins.get(key, "default")

    def with_values(self, values: Mapping[str, Any], origins: Mapping[str, str]) -> Settings:
        """Return these settings with other values, by dotted key, from other origins."""
        changed: dict[str, dict[str, Any]] = {}
        for key, value in values.items():
            section, _, name = key.partition(".")
            changed.setdefault(section, {})[name] = value
        sections = {name: replace(getattr(self, name), **new) for name, new in changed.items()}
        merged = MappingProxyType({**self.origins, **origins})
        return replace(self, **sections, origins=merged)

    def located(self, directory: Path) -> Settings:
        """Return these settings with relative paths taken from a directory."""
        storage = replace(
            self.storage,
            sqlite_path=directory / self.storage.sqlite_path,
            json_dir=directory / self.storage.json_dir,
        )
        return replace(self, storage=storage, directory=directory)

    def tenant(self, tenant: TenantId) -> Tenant:
        """Return a configured tenant, or raise ConfigError naming those there are."""
        for known in self.tenants:
            if known.id == tenant:
                return known
        names = ", ".join(known.id for known in self.tenants)
        raise ConfigError(f"there is no tenant {tenant!r}; configured: {names}")

    def for_tenant(self, tenant: TenantId) -> Settings:
        """Return what is in force for one tenant; nothing about the others is left in it."""
        known = self.tenant(tenant)
        own = f"tenants.{tenant}."
        origins = {key: self.origins[own + key] for key in known.overrides}
        alone = {key: where for key, where in self.origins.items() if key in KNOWN}
        plain = replace(known, overrides=MappingProxyType({}))
        settings = replace(self, tenants=(plain,), origins=alone)
        return settings.with_values({**self._named(tenant), **known.overrides}, origins)

    def _named(self, tenant: TenantId) -> dict[str, Any]:
        """Return the settings that name tenants, as far as they name this one."""
        scheduling, default = self.scheduling, self.tenancy.default_tenant_id
        return {
            "scheduling.tenant_include": tuple({tenant} & {*scheduling.tenant_include}),
            "scheduling.tenant_exclude": tuple({tenant} & {*scheduling.tenant_exclude}),
            "tenancy.default_tenant_id": tenant if tenant == default else None,
        }

    def active_tenants(self) -> tuple[TenantId, ...]:
        """Return the tenants that take part, in id order."""
        include, exclude = self.scheduling.tenant_include, self.scheduling.tenant_exclude
        return tuple(
            sorted(
                tenant.id
                for tenant in self.tenants
                if tenant.enabled
                and tenant.id not in exclude
                and (not include or tenant.id in include)
            )
        )

    def default_tenant(self) -> TenantId | None:
        """Return whose work a command does when nobody says; None when that is not clear."""
        if self.tenancy.default_tenant_id is not None:
            return self.tenancy.default_tenant_id
        return self.tenants[0].id if len(self.tenants) == 1 else None

    def schedule_for(self, tenant: TenantId) -> Schedule:
        """Return when a tenant's runs are due."""
        return schedule_of(self.for_tenant(tenant).scheduling)

    def caps_in_force(self) -> dict[str, int]:
        """Return every cap by its dotted key, as manifests keep them."""
        said = {key: self.value(key) for key in KNOWN if key.startswith("caps.")}
        caps = {key: value for key, value in said.items() if isinstance(value, int)}
        limits = ("scheduling.daily_cap_per_tenant", "crawl.max_pages", "extract.corpus_char_limit")
        return {**{key: self.value(key) for key in limits}, **caps}

    def connector(self, name: str) -> ConnectorSection:
        """Return how a connector is called, or raise ConfigError naming those there are."""
        if name not in CONNECTORS:
            known = ", ".join(CONNECTORS)
            raise ConfigError(f"there are no settings for connector {name!r}; there are: {known}")
        section: ConnectorSection = getattr(self, name)
        return section

    def pull_units(self, connector: str, *, deep: bool) -> int:
        """Return what one look through a connector counts; for a tenant, ask its own settings."""
        section = self.crawl if connector == "crawl" else self.connector(connector)
        own = section.deep_units if deep else section.shallow_units
        return own or (self.pulls.deep_units if deep else self.pulls.shallow_units)

    def secret_values(self) -> frozenset[str]:
        """Return every text that must not be shown, for the redactor."""
        hidden = {key for key, about in KNOWN.items() if about.kind.secret}
        secrets = [self.value(key) for key in hidden]
        secrets += [
            value
            for tenant in self.tenants
            for key, value in tenant.overrides.items()
            if key in hidden
        ]
        return frozenset(part for secret in secrets if secret for part in secret.parts())

    def snapshot(self) -> dict[str, Json]:
        """Return all of it as plain JSON for a manifest; of a secret, only whether it is set."""
        sections: dict[str, dict[str, Json]] = {}
        for key in KNOWN:
            section, _, name = key.partition(".")
            sections.setdefault(section, {})[name] = as_json(
                self.value(key), secret=KNOWN[key].kind.secret
            )
        tenants: dict[str, Json] = {
            tenant.id: {
                "name": tenant.name,
                "enabled": tenant.enabled,
                "overrides": {
                    key: as_json(value, secret=KNOWN[key].kind.secret)
                    for key, value in tenant.overrides.items()
                },
            }
            for tenant in self.tenants
        }
        return {**sections, "tenants": tenants}

    def shown(self) -> list[Shown]:
        """Return every value and its origin, fit to be shown to anyone."""
        lines = [
            Shown(key=key, value=show(self.value(key)), origin=self.origin(key), help=about.help)
            for key, about in KNOWN.items()
        ]
        for tenant in self.tenants:
            own = f"tenants.{tenant.id}."
            said = {"name": tenant.name, "enabled": tenant.enabled, **tenant.overrides}
            for key, value in said.items():
                about = KNOWN[key].help if key in KNOWN else ""
                line = Shown(
                    key=own + key, value=show(value), origin=self.origin(own + key), help=about
                )
                lines.append(line)
        return lines


def schedule_of(scheduling: Scheduling) -> Schedule:
    """Return the schedule these settings describe, or say which one is missing."""
    if scheduling.mode == "interval":
        if scheduling.interval_minutes is None:
            raise ConfigError("scheduling.mode is interval; set scheduling.interval_minutes too")
        return Interval(timedelta(minutes=scheduling.interval_minutes))
    if scheduling.mode == "window":
        if scheduling.window_time is None:
            raise ConfigError('scheduling.mode is window; set scheduling.window_time, e.g. "01:30"')
        return Window(scheduling.window_time)
    return Cron(scheduling.cron, scheduling.timezone, scheduling.gap, scheduling.fold)
