"""All settings as one frozen value that also knows where each value came from.

A section is declared in its room's `settings.py`; the reference page, `stoker init`, `config show`
and error messages are made from the fields listed here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from stoker.accounts.settings import IcpSettings
from stoker.base.errors import ConfigError
from stoker.base.types import Json, TenantId, get_tenant_order
from stoker.budgets.settings import CapSettings
from stoker.calendar.recurrence import Schedule
from stoker.config.fields import FieldInfo, Secret, Section, list_settings
from stoker.config.settings import KeySettings, LoggingSettings, TenancySettings, TenantTable
from stoker.crawl.settings import CrawlSettings, ExtractSettings
from stoker.db.settings import StorageSettings
from stoker.discovery.settings import DiscoverySettings
from stoker.heat.settings import HeatSettings
from stoker.http.settings import SandboxSettings
from stoker.leads.settings import ScoreRule
from stoker.pulls.settings import PullSettings
from stoker.rate_limits.settings import PacingSettings
from stoker.runs.settings import RetentionRule
from stoker.scheduling.settings import SchedulingSettings
from stoker.touches.settings import TouchSettings
from stoker.vendors.table import VENDOR_SECTIONS, VENDORS, VendorSettings

SectionT = TypeVar("SectionT", bound=VendorSettings)

DEFAULT_TENANT = TenantId("default")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """One configured tenant, and what it sets for itself."""

    id: TenantId
    name: str
    enabled: bool = True
    overrides: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))


class ShownSetting(NamedTuple):
    """One setting as it may be shown: secrets are masked."""

    key: str
    value: str
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that can be set, and where each value came from."""

    scheduling: SchedulingSettings = field(default_factory=SchedulingSettings)
    storage: StorageSettings = field(default_factory=StorageSettings)
    retention: RetentionRule = field(default_factory=RetentionRule)
    logging: LoggingSettings = field(default_factory=LoggingSettings)
    caps: CapSettings = field(default_factory=CapSettings)
    heat: HeatSettings = field(default_factory=HeatSettings)
    pulls: PullSettings = field(default_factory=PullSettings)
    pacing: PacingSettings = field(default_factory=PacingSettings)
    sandbox: SandboxSettings = field(default_factory=SandboxSettings)
    vendors: Mapping[str, VendorSettings] = field(  # by name
        default_factory=lambda: {name: kind() for name, kind in VENDOR_SECTIONS.items()}
    )
    crawl: CrawlSettings = field(default_factory=CrawlSettings)
    extract: ExtractSettings = field(default_factory=ExtractSettings)
    score: ScoreRule = field(default_factory=ScoreRule)
    icp: IcpSettings = field(default_factory=IcpSettings)
    touches: TouchSettings = field(default_factory=TouchSettings)
    discovery: DiscoverySettings = field(default_factory=DiscoverySettings)
    keys: KeySettings = field(default_factory=KeySettings)
    tenancy: TenancySettings = field(default_factory=TenancySettings)
    tenants: tuple[Tenant, ...] = (Tenant(id=DEFAULT_TENANT, name=str(DEFAULT_TENANT)),)
    origins: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    directory: Path = Path()  # where work is done: what relative paths are relative to

    def get_value(self, key: str) -> Any:
        """Return the value of a dotted key."""
        about = FIELDS[key]
        return getattr(self._get_section(about.section), about.attribute)

    def get_vendor(self, kind: type[SectionT]) -> SectionT:
        """Return the section of a vendor, by its class."""
        return next(each for each in self.vendors.values() if isinstance(each, kind))

    def _get_section(self, name: str) -> Section:
        section: Section = self.vendors[name] if name in self.vendors else getattr(self, name)
        return section

    def get_origin(self, key: str) -> str:
        """Return where a dotted key's value came from."""
        return self.origins.get(key, "default")

    def with_values(self, values: Mapping[str, Any], origins: Mapping[str, str]) -> Settings:
        """Return these settings with other values, by dotted key, from other origins.

        Raises ConfigError with one line for every section whose values contradict each other.
        """
        changed: dict[str, dict[str, Any]] = {}
        for key, value in values.items():
            changed.setdefault(FIELDS[key].section, {})[FIELDS[key].attribute] = value
        sections: dict[str, Any] = {}
        problems = []
        for section, new in changed.items():
            try:
                sections[section] = replace(self._get_section(section), **new)
            except ConfigError as error:
                own = (key for key in values if FIELDS[key].section == section)
                where = next((origins[key] for key in own if key in origins), "default")
                problems.append(f"{where}: {section}: {error}")
        if problems:
            raise ConfigError(*problems)
        merged = MappingProxyType({**self.origins, **origins})
        vendors = {name: sections.pop(name, own) for name, own in self.vendors.items()}
        return replace(self, **sections, vendors=vendors, origins=merged)

    def with_directory(self, directory: Path) -> Settings:
        """Return these settings with relative paths taken from a directory."""
        storage = replace(
            self.storage,
            sqlite_path=directory / self.storage.sqlite_path,
            json_dir=directory / self.storage.json_dir,
        )
        return replace(self, storage=storage, directory=directory)

    def get_tenant(self, tenant: TenantId) -> Tenant:
        """Return a configured tenant, or raise ConfigError naming those there are."""
        for known in self.tenants:
            if known.id == tenant:
                return known
        names = ", ".join(known.id for known in self.tenants)
        raise ConfigError(f"there is no tenant {tenant!r}; configured: {names}")

    def for_tenant(self, tenant: TenantId) -> Settings:
        """Return what is in force for one tenant; nothing about the others is left in it."""
        known = self.get_tenant(tenant)
        own = f"tenants.{tenant}."
        origins = {key: self.origins[own + key] for key in known.overrides}
        alone = {key: where for key, where in self.origins.items() if key in FIELDS}
        plain = replace(known, overrides=MappingProxyType({}))
        settings = replace(self, tenants=(plain,), origins=alone)
        # The settings that name tenants name this one at most.
        scheduling, default = self.scheduling, self.tenancy.default_tenant_id
        named = {
            "scheduling.tenant_include": tuple({tenant} & {*scheduling.tenant_include}),
            "scheduling.tenant_exclude": tuple({tenant} & {*scheduling.tenant_exclude}),
            "tenancy.default_tenant_id": tenant if tenant == default else None,
        }
        return settings.with_values({**named, **known.overrides}, origins)

    def list_active_tenants(self) -> tuple[TenantId, ...]:
        """Return the tenants that take part, in the order of their ids."""
        include, exclude = self.scheduling.tenant_include, self.scheduling.tenant_exclude
        active = (
            tenant.id
            for tenant in self.tenants
            if tenant.enabled and tenant.id not in exclude and (not include or tenant.id in include)
        )
        return tuple(sorted(active, key=get_tenant_order))

    def list_unknown_tenants(self) -> list[tuple[str, TenantId]]:
        """Return each id that the include or exclude list names and no tenant has, with its key."""
        known = {tenant.id for tenant in self.tenants}
        return [
            (key, tenant)
            for key in ("scheduling.tenant_include", "scheduling.tenant_exclude")
            for tenant in self.get_value(key)
            if tenant not in known
        ]

    def find_default_tenant(self) -> TenantId | None:
        """Return the tenant of a command that names none; None when that is not clear."""
        if self.tenancy.default_tenant_id is not None:
            return self.tenancy.default_tenant_id
        return self.tenants[0].id if len(self.tenants) == 1 else None

    def get_schedule(self, tenant: TenantId) -> Schedule:
        """Return when a tenant's runs are due."""
        return self.for_tenant(tenant).scheduling.build_schedule()

    def list_cap_values(self) -> dict[str, int]:
        """Return every cap by its dotted key, as manifests keep them."""
        limits = ("scheduling.daily_cap_per_tenant", "crawl.max_pages", "extract.corpus_char_limit")
        keys = (*limits, *(key for key in FIELDS if key.startswith("caps.")))
        values = {key: self.get_value(key) for key in keys}
        return {key: value for key, value in values.items() if isinstance(value, int)}

    def get_connector(self, name: str) -> VendorSettings | CrawlSettings:
        """Return how a connector is called, or raise ConfigError naming those there are."""
        if name == "crawl":
            return self.crawl
        if name not in self.vendors:
            known = ", ".join(self.vendors)
            raise ConfigError(f"there are no settings for connector {name!r}; there are: {known}")
        return self.vendors[name]

    def list_vendor_caps(self) -> list[tuple[str, str, int]]:
        """Return what may be used of each vendor in a day: its name, the unit, the limit."""
        return [
            (name, unit, self.get_value(key))
            for name, vendor in VENDORS.items()
            for unit, key in vendor.caps.items()
        ]

    def list_run_caps(self) -> list[tuple[str, str, int]]:
        """Return what may be used of each vendor in one run, where that is limited."""
        return [
            (name, unit, limit)
            for name, vendor in VENDORS.items()
            for unit, key in vendor.run_caps.items()
            if (limit := self.get_value(key)) is not None
        ]

    def get_pull_units(self, connector: str, *, deep: bool) -> int:
        """Return the pull units of one lookup; for a tenant, ask its own settings."""
        section = self.get_connector(connector)
        own = section.deep_units if deep else section.shallow_units
        return own or (self.pulls.deep_units if deep else self.pulls.shallow_units)

    def format_missing(self, keys: Iterable[str]) -> str:
        """Return which settings are missing, and their names in the environment; empty for none."""
        names = [f"{key} ({FIELDS[key].env[0]})" for key in keys]
        return f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} not set" if names else ""

    def list_secret_values(self) -> frozenset[str]:
        """Return every text that must not be shown, for the redactor."""
        values = [self.get_value(key) for key in FIELDS]
        values += [value for tenant in self.tenants for value in tenant.overrides.values()]
        secrets = (value for value in values if isinstance(value, Secret))
        return frozenset(part for secret in secrets for part in secret.list_parts())

    def snapshot(self) -> dict[str, Json]:
        """Return all of it as plain JSON for a manifest; of a secret, only whether it is set."""
        sections: dict[str, dict[str, Json]] = {}
        for key, about in FIELDS.items():
            section, _, name = key.partition(".")
            sections.setdefault(section, {})[name] = about.to_json(self.get_value(key))
        tenants: dict[str, Json] = {
            tenant.id: {
                "name": tenant.name,
                "enabled": tenant.enabled,
                "overrides": {
                    key: FIELDS[key].to_json(value) for key, value in tenant.overrides.items()
                },
            }
            for tenant in self.tenants
        }
        return {**sections, "tenants": tenants}

    def list_shown(self) -> list[ShownSetting]:
        """Return every value and its origin, fit to be shown to anyone."""
        values = {key: self.get_value(key) for key in FIELDS}
        for tenant in self.tenants:
            own = {"name": tenant.name, "enabled": tenant.enabled, **tenant.overrides}
            values |= {f"tenants.{tenant.id}.{key}": value for key, value in own.items()}
        return [
            ShownSetting(key, get_field(key).format(value), self.get_origin(key))
            for key, value in values.items()
        ]


def get_field(key: str) -> FieldInfo:
    """Return what is known about a setting, also about a tenant's own: `tenants.ID.…`."""
    if key in FIELDS:
        return FIELDS[key]
    name = key.split(".", 2)[2]
    return FIELDS.get(name) or TENANT_KEYS[name]


_DEFAULTS = Settings()

SECTIONS: Mapping[str, type[Section]] = MappingProxyType(
    {
        name: kind
        for each in fields(Settings)
        for name, kind in (
            VENDOR_SECTIONS
            if each.name == "vendors"
            else {each.name: type(getattr(_DEFAULTS, each.name))}
        ).items()
        if issubclass(kind, Section)
    }
)
"""The sections by name, in the order people read about them."""


def _list_fields() -> Iterator[tuple[str, FieldInfo]]:
    """Yield each setting with its dotted key; a vendor's key and caps before those of no vendor."""
    known = {
        about.key if "." in about.key else f"{name}.{about.key}": replace(about, section=name)
        for name in sorted(SECTIONS, key=lambda name: name not in VENDOR_SECTIONS)
        for about in list_settings(SECTIONS[name])
    }
    for table in SECTIONS:
        for key, about in known.items():
            if key.partition(".")[0] == table:
                env = about.env or (f"STOKER_{key.replace('.', '_')}".upper(),)
                yield key, replace(about, env=env)


FIELDS: Mapping[str, FieldInfo] = MappingProxyType(dict(_list_fields()))
"""Every setting by its dotted key."""

TENANT_KEYS: Mapping[str, FieldInfo] = MappingProxyType(
    {about.key: about for about in list_settings(TenantTable)}
    | {key: about for key, about in FIELDS.items() if about.per_tenant}
)
"""What may stand in a tenant's table; other settings are the installation's own."""
