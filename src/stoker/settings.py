"""Every setting: default, type, names in the environment, and one sentence of help.

The reference page, `stoker init`, `config show` and error messages all come from this list.
`Settings` is one frozen value that also knows where each value came from; `config/` reads it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import time, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any

from stoker.base.errors import ConfigError
from stoker.base.types import Json, TenantId
from stoker.calendar.recurrence import CatchUp, Cron, Interval, Schedule, Window
from stoker.calendar.timezones import Fold, Gap
from stoker.config.fields import (
    BOOLEAN,
    CRON,
    CURRENCY,
    FLAG_IF_SET,
    HOUR_MINUTE,
    LOCAL_TIME,
    PATH,
    POSTGRES_URL,
    SECRET,
    TENANT,
    TENANTS,
    TEXT,
    ZONE,
    FieldInfo,
    Secret,
    Section,
    choice,
    integer,
    list_settings,
    member,
    number,
)
from stoker.config.fields import (
    setting as _is,
)
from stoker.config.fields import (
    tenant_setting as _each,
)
from stoker.discovery.settings import DiscoverySettings
from stoker.heat.settings import HeatSettings
from stoker.http.fields import LOOPBACK
from stoker.leads.scoring import DEFAULT_WEIGHTS, ScoreRule
from stoker.pulls.settings import PullSettings
from stoker.touches.settings import TouchSettings
from stoker.vendors.settings import (
    BoardsSettings,
    DataGovDownloadsSettings,
    DataGovSettings,
    LushaSettings,
    OdooSettings,
    OpenAiSettings,
    TavilySettings,
    VendorSettings,
    ZeroBounceSettings,
)

_MAX_AMOUNT = 1_000_000_000

_WEIGHT = number(0, 1000)


@dataclass(frozen=True, kw_only=True)
class Scheduling(Section):
    """When runs start, and how many go on at once."""

    enabled: bool = _each(BOOLEAN, True, "Whether the schedule starts runs.", "SCHED_ENABLED")
    mode: str = _each(choice("interval", "window", "cron"), "cron", "What kind of schedule it is.")
    interval_minutes: int | None = _each(
        integer(1, 5_270_400), None, "Minutes between runs; mode interval needs it."
    )
    window_time: time | None = _each(
        HOUR_MINUTE, None, "Time of day, UTC, of the daily run; mode window needs it."
    )
    cron: str = _each(
        CRON, "0 1 * * *", "When runs start, in the time zone; for mode cron.", "SCHED_START_CRON"
    )
    timezone: str = _is(
        ZONE, "Asia/Singapore", "The time zone the cron line speaks of.", "SCHED_TIMEZONE"
    )
    gap: Gap = _each(
        member(Gap), Gap.SHIFT, "A time the clock skips in spring: run at the shift, or skip it."
    )
    fold: Fold = _each(
        member(Fold), Fold.FIRST, "A time the clock shows twice in autumn: which of the two runs."
    )
    catch_up: CatchUp = _each(
        member(CatchUp), CatchUp.LATEST, "Which missed instants run once Stoker is back."
    )
    catch_up_max: int = _each(
        integer(1, 1000), 24, "How many missed instants run at most; for catch_up all."
    )
    tenant_concurrency: int = _is(
        integer(1, 100),
        3,
        "Tenants worked on at once, for each kind of work.",
        "SCHED_TENANT_CONCURRENCY",
    )
    stagger_s: float = _is(
        number(0, 600), 2.0, "Seconds between the beginnings of nights due at the same time."
    )
    company_concurrency: int = _each(
        integer(1, 200), 8, "Companies worked on at once, per tenant.", "SCHED_COMPANY_CONCURRENCY"
    )
    daily_cap_per_tenant: int = _each(
        integer(0, 1_000_000),
        1000,
        "Companies a tenant's run takes on at most.",
        "SCHED_DAILY_CAP_PER_TENANT",
        "SHORTLIST_DAILY_CAP",
    )
    deadline_minutes: int = _each(
        integer(1, 1440),
        90,
        "Minutes a night may take; the least valuable companies are left out to end in time.",
    )
    tenant_include: tuple[TenantId, ...] = _is(
        TENANTS, (), "Only these tenants run; empty means all.", "SCHED_TENANT_INCLUDE"
    )
    tenant_exclude: tuple[TenantId, ...] = _is(
        TENANTS, (), "These tenants do not run, included or not.", "SCHED_TENANT_EXCLUDE"
    )


@dataclass(frozen=True, kw_only=True)
class Storage(Section):
    """Where Stoker remembers."""

    backend: str = _is(
        choice("sqlite", "postgres", "json", "memory"), "sqlite", "Which kind of store is used."
    )
    sqlite_path: Path = _is(PATH, Path("stoker.db"), "The SQLite file.")
    postgres_url: Secret | None = _is(
        POSTGRES_URL, None, "Where Postgres is, as the restricted role; backend postgres needs it."
    )
    postgres_admin_url: Secret | None = _is(
        POSTGRES_URL, None, "Where Postgres is, as its owner; only `db setup` uses it."
    )
    json_dir: Path = _is(PATH, Path("stoker-data"), "The directory of the JSON files.")


@dataclass(frozen=True, kw_only=True)
class Retention(Section):
    """Which runs are forgotten."""

    enabled: bool = _is(BOOLEAN, False, "Whether upkeep forgets old runs.")
    days: int = _is(integer(0, 36_500), 90, "Runs younger than this many days stay.")
    keep_latest_n_runs: int = _is(
        integer(1, 1_000_000), 30, "This many runs stay however old they are."
    )


@dataclass(frozen=True, kw_only=True)
class Logging(Section):
    """What is written down while it works."""

    format: str = _is(
        choice("auto", "human", "json"), "auto", "Lines for people, or JSON; auto looks who reads."
    )
    level: str = _is(
        choice("debug", "info", "warning", "error"), "info", "The least important line written."
    )
    no_color: bool = _is(FLAG_IF_SET, False, "Whether lines stay plain on a terminal.", "NO_COLOR")


@dataclass(frozen=True, kw_only=True)
class Caps(Section):
    """What a tenant may use in a day, and when its day begins."""

    openai_daily_tokens: int = _each(
        integer(0, _MAX_AMOUNT), 150_000, "OpenAI tokens a day.", "OPENAI_DAILY_TOKENS_CAP"
    )
    openai_calls: int = _each(integer(0, _MAX_AMOUNT), 2000, "OpenAI calls a day.")
    tavily_queries: int = _each(
        integer(0, _MAX_AMOUNT), 800, "Tavily searches a day.", "TAVILY_MAX_QUERIES"
    )
    tavily_credits: int = _each(
        integer(0, _MAX_AMOUNT), 1000, "Tavily credits a day; a search costs one, a deeper one two."
    )
    lusha_contact_lookups: int = _each(
        integer(0, _MAX_AMOUNT), 500, "Lusha lookups a day.", "LUSHA_MAX_CONTACT_LOOKUPS"
    )
    lusha_credits: int = _each(
        integer(0, _MAX_AMOUNT),
        1000,
        "Lusha credits a day; looking for people costs one, each address one.",
    )
    zerobounce_verifications: int = _each(
        integer(0, _MAX_AMOUNT), 1000, "ZeroBounce checks a day.", "ZEROBOUNCE_MAX_VERIFICATIONS"
    )
    zerobounce_credits: int = _each(
        integer(0, _MAX_AMOUNT), 1000, "ZeroBounce credits a day; an address costs one at most."
    )
    pull_units_per_day: int = _each(
        integer(0, _MAX_AMOUNT), 300, "Pull units a day, over all connectors."
    )
    money_per_day_minor: int = _each(
        integer(0, _MAX_AMOUNT),
        1000,
        "Money a day, over all connectors, in minor units (1000: 10.00).",
    )
    currency: str = _each(CURRENCY, "USD", "The currency of money_per_day_minor.")
    reset_time: time = _each(
        LOCAL_TIME, time(0, 0), "When caps begin anew, in the tenant's time zone."
    )


@dataclass(frozen=True, kw_only=True)
class Pacing(Section):
    """Who shares the vendors' rates, and how tenants share busy vendors."""

    processes: str = _is(
        choice("auto", "one", "many"),
        "auto",
        "Whether one process or many use the vendors' keys: one keeps rates in memory, many share "
        "them through the store; auto is many, except in memory.",
    )
    weight: int = _each(
        integer(1, 1000), 1, "The tenant's share of a busy connector, against the others' weights."
    )


@dataclass(frozen=True, kw_only=True)
class Sandbox(Section):
    """A make-believe internet to rehearse on; `stoker sandbox serve` is one."""

    address: str | None = _is(
        LOOPBACK,
        None,
        "Where names ending in .test lead. While it is set, vendors without an address of their "
        "own are the sandbox's, only keys with the word sandbox in them go there, and files nobody "
        "named are a rehearsal's own.",
    )


@dataclass(frozen=True, kw_only=True)
class Crawl(Section):
    """How company sites are read."""

    gap_s: float = _is(
        number(0.001, 3600),
        0.5,
        "Seconds between two requests to one host; more if its robots.txt asks for more.",
    )
    concurrency: int = _is(integer(1, 10_000), 32, "Pages read at once, over all hosts.")
    shallow_units: int | None = _each(
        integer(1, 1000), None, "Pull units of a shallow look; pulls.shallow_units, if not set."
    )
    deep_units: int | None = _each(
        integer(1, 1000), None, "Pull units of a deep look; pulls.deep_units, if not set."
    )

    max_pages: int = _is(integer(1, 1000), 6, "Pages read per company.", "CRAWL_MAX_PAGES")
    timeout_s: float = _is(number(0.1, 600), 15.0, "Seconds a page may take.", "CRAWLER_TIMEOUT_S")
    user_agent: str = _is(
        TEXT,
        "Stoker/0.1 (+https://example.invalid/stoker; contact: set CRAWLER_USER_AGENT)",
        "How the crawler introduces itself; put your contact in it.",
        "CRAWLER_USER_AGENT",
    )
    persist_corpus: bool = _is(
        BOOLEAN,
        False,
        "Whether the text a company's facts were taken from is kept; it goes with retention.days.",
        "PERSIST_CRAWL_CORPUS",
    )


@dataclass(frozen=True, kw_only=True)
class Extract(Section):
    """How facts are taken from texts."""

    corpus_char_limit: int = _is(
        integer(100, 10_000_000),
        50_000,
        "Characters of text per company that are read at most.",
        "EXTRACT_CORPUS_CHAR_LIMIT",
    )


@dataclass(frozen=True, kw_only=True)
class Score(Section):
    """What counts for a lead, and when its score is good enough."""

    min_export: float = _each(
        number(0, 1),
        0.66,
        "The least score that becomes a lead.",
        "SCORE_MIN_EXPORT",
        "LEAD_THRESHOLD",
    )
    high_from: float = _each(number(0, 1), 0.66, "The least score that is called High.")
    medium_from: float = _each(number(0, 1), 0.40, "The least score that is called Medium.")
    industry_weight: float = _each(
        _WEIGHT, DEFAULT_WEIGHTS["industry"], "How much it counts that the industry is wanted."
    )
    size_weight: float = _each(
        _WEIGHT, DEFAULT_WEIGHTS["size"], "How much it counts that the size fits."
    )
    reachable_weight: float = _each(
        _WEIGHT, DEFAULT_WEIGHTS["reachable"], "How much an address that works counts."
    )
    decision_maker_weight: float = _each(
        _WEIGHT, DEFAULT_WEIGHTS["decision_maker"], "How much somebody who decides counts."
    )
    presence_weight: float = _each(
        _WEIGHT, DEFAULT_WEIGHTS["presence"], "How much a site that says a lot counts."
    )
    momentum_weight: float = _each(
        _WEIGHT, DEFAULT_WEIGHTS["momentum"], "How much hiring and growing count."
    )
    llm_rationale: bool = _each(
        BOOLEAN, False, "Whether OpenAI words rationales anew; it is paid once for equal features."
    )

    def rule(self) -> ScoreRule:
        """Return how leads are scored. Raises ConfigError when these cannot all hold."""
        return ScoreRule(
            weights={name: getattr(self, f"{name}_weight") for name in DEFAULT_WEIGHTS},
            high_from=self.high_from,
            medium_from=self.medium_from,
        )


@dataclass(frozen=True, kw_only=True)
class Icp(Section):
    """Which companies fit."""

    rule_name: str = _each(TEXT, "default", "The name of the rule to use.", "ICP_RULE_NAME")


@dataclass(frozen=True, kw_only=True)
class Keys(Section):
    """The vendors' keys. Each is optional; without one, that vendor is not called."""

    openai: Secret | None = _each(SECRET, None, "OpenAI's key.", "OPENAI_API_KEY")
    tavily: Secret | None = _each(SECRET, None, "Tavily's key.", "TAVILY_API_KEY")
    lusha: Secret | None = _each(SECRET, None, "Lusha's key.", "LUSHA_API_KEY")
    zerobounce: Secret | None = _each(SECRET, None, "ZeroBounce's key.", "ZEROBOUNCE_API_KEY")
    odoo: Secret | None = _each(SECRET, None, "The key of a tenant's Odoo.", "ODOO_API_KEY")
    webhook: Secret | None = _each(
        SECRET, None, "What a tenant's webhook knows our deliveries by; 16 characters or more."
    )
    datagov: Secret | None = _is(
        SECRET, None, "data.gov.sg's key; it only allows more.", "DATA_GOV_SG_API_KEY"
    )


@dataclass(frozen=True, kw_only=True)
class Tenancy(Section):
    """Whose work it is when nobody says."""

    default_tenant_id: TenantId | None = _is(
        TENANT, None, "The tenant of a command that is about one tenant.", "DEFAULT_TENANT_ID"
    )


@dataclass(frozen=True, kw_only=True)
class TenantTable(Section):
    """What `[tenants.ID]` says besides overriding settings."""

    name: str = _is(TEXT, "", "What people call the tenant; its id, if not given.")
    timezone: str = _is(ZONE, "", "The tenant's time zone; scheduling.timezone, if not given.")
    enabled: bool = _is(BOOLEAN, True, "Whether the tenant is active.")


SECTIONS: Mapping[str, type[Section]] = MappingProxyType(
    {
        "scheduling": Scheduling,
        "storage": Storage,
        "retention": Retention,
        "logging": Logging,
        "caps": Caps,
        "heat": HeatSettings,
        "pulls": PullSettings,
        "pacing": Pacing,
        "sandbox": Sandbox,
        "tavily": TavilySettings,
        "openai": OpenAiSettings,
        "lusha": LushaSettings,
        "zerobounce": ZeroBounceSettings,
        "odoo": OdooSettings,
        "datagov": DataGovSettings,
        "datagov_downloads": DataGovDownloadsSettings,
        "boards": BoardsSettings,
        "crawl": Crawl,
        "extract": Extract,
        "score": Score,
        "icp": Icp,
        "touches": TouchSettings,
        "discovery": DiscoverySettings,
        "keys": Keys,
        "tenancy": Tenancy,
    }
)
"""The sections by name, in the order people read about them."""


def _list_fields(prefix: str, section: type[Section]) -> Iterator[tuple[str, FieldInfo]]:
    for about in list_settings(section):
        env = about.env or (f"STOKER_{prefix}_{about.key}".upper(),)
        yield about.key, replace(about, env=env)


CONNECTORS = tuple(
    name for name, section in SECTIONS.items() if issubclass(section, VendorSettings)
)
"""The connectors that have a rate of their own, by the names of their sections."""

FIELDS: Mapping[str, FieldInfo] = MappingProxyType(
    {
        f"{section}.{name}": about
        for section, kind in SECTIONS.items()
        for name, about in _list_fields(section, kind)
    }
)
"""Every setting by its dotted key."""

TENANT_KEYS: Mapping[str, FieldInfo] = MappingProxyType(
    {about.key: about for about in list_settings(TenantTable)}
    | {key: about for key, about in FIELDS.items() if about.per_tenant}
)
"""What may stand in a tenant's table; other settings are the installation's own."""

DEFAULT_TENANT = TenantId("default")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """One configured tenant, and what it sets for itself."""

    id: TenantId
    name: str
    enabled: bool = True
    overrides: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownSetting:
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
    heat: HeatSettings = field(default_factory=HeatSettings)
    pulls: PullSettings = field(default_factory=PullSettings)
    pacing: Pacing = field(default_factory=Pacing)
    sandbox: Sandbox = field(default_factory=Sandbox)
    tavily: TavilySettings = field(default_factory=TavilySettings)
    openai: OpenAiSettings = field(default_factory=OpenAiSettings)
    lusha: LushaSettings = field(default_factory=LushaSettings)
    zerobounce: ZeroBounceSettings = field(default_factory=ZeroBounceSettings)
    odoo: OdooSettings = field(default_factory=OdooSettings)
    datagov: DataGovSettings = field(default_factory=DataGovSettings)
    datagov_downloads: DataGovDownloadsSettings = field(default_factory=DataGovDownloadsSettings)
    boards: BoardsSettings = field(default_factory=BoardsSettings)
    crawl: Crawl = field(default_factory=Crawl)
    extract: Extract = field(default_factory=Extract)
    score: Score = field(default_factory=Score)
    icp: Icp = field(default_factory=Icp)
    touches: TouchSettings = field(default_factory=TouchSettings)
    discovery: DiscoverySettings = field(default_factory=DiscoverySettings)
    keys: Keys = field(default_factory=Keys)
    tenancy: Tenancy = field(default_factory=Tenancy)
    tenants: tuple[Tenant, ...] = (Tenant(id=DEFAULT_TENANT, name=str(DEFAULT_TENANT)),)
    origins: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    directory: Path = Path()  # where work is done: what relative paths are relative to

    def get_value(self, key: str) -> Any:
        """Return the value of a dotted key."""
        section, _, _ = key.partition(".")
        return getattr(getattr(self, section), FIELDS[key].attribute)

    def get_origin(self, key: str) -> str:
        """Return where a dotted key's value came from."""
        return self.origins.get(key, "default")

    def with_values(self, values: Mapping[str, Any], origins: Mapping[str, str]) -> Settings:
        """Return these settings with other values, by dotted key, from other origins.

        Raises ConfigError with one line for every section whose values contradict each other.
        """
        changed: dict[str, dict[str, Any]] = {}
        for key, value in values.items():
            section, _, _ = key.partition(".")
            changed.setdefault(section, {})[FIELDS[key].attribute] = value
        sections, problems = {}, []
        for section, new in changed.items():
            try:
                sections[section] = replace(getattr(self, section), **new)
            except ConfigError as error:
                own = (key for key in values if key.startswith(f"{section}."))
                where = next((origins[key] for key in own if key in origins), "default")
                problems.append(f"{where}: {section}: {error}")
        if problems:
            raise ConfigError("\n".join(problems))
        merged = MappingProxyType({**self.origins, **origins})
        return replace(self, **sections, origins=merged)

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
        return settings.with_values({**self._keep_tenant_names(tenant), **known.overrides}, origins)

    def _keep_tenant_names(self, tenant: TenantId) -> dict[str, Any]:
        """Return the settings that name tenants, as far as they name this one."""
        scheduling, default = self.scheduling, self.tenancy.default_tenant_id
        return {
            "scheduling.tenant_include": tuple({tenant} & {*scheduling.tenant_include}),
            "scheduling.tenant_exclude": tuple({tenant} & {*scheduling.tenant_exclude}),
            "tenancy.default_tenant_id": tenant if tenant == default else None,
        }

    def list_active_tenants(self) -> tuple[TenantId, ...]:
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

    def find_default_tenant(self) -> TenantId | None:
        """Return whose work a command does when nobody says; None when that is not clear."""
        if self.tenancy.default_tenant_id is not None:
            return self.tenancy.default_tenant_id
        return self.tenants[0].id if len(self.tenants) == 1 else None

    def get_schedule(self, tenant: TenantId) -> Schedule:
        """Return when a tenant's runs are due."""
        return build_schedule(self.for_tenant(tenant).scheduling)

    def list_cap_values(self) -> dict[str, int]:
        """Return every cap by its dotted key, as manifests keep them."""
        said = {key: self.get_value(key) for key in FIELDS if key.startswith("caps.")}
        caps = {key: value for key, value in said.items() if isinstance(value, int)}
        limits = ("scheduling.daily_cap_per_tenant", "crawl.max_pages", "extract.corpus_char_limit")
        return {**{key: self.get_value(key) for key in limits}, **caps}

    def get_connector(self, name: str) -> VendorSettings:
        """Return how a connector is called, or raise ConfigError naming those there are."""
        if name not in CONNECTORS:
            known = ", ".join(CONNECTORS)
            raise ConfigError(f"there are no settings for connector {name!r}; there are: {known}")
        section: VendorSettings = getattr(self, name)
        return section

    def get_pull_units(self, connector: str, *, deep: bool) -> int:
        """Return what one look through a connector counts; for a tenant, ask its own settings."""
        section = self.crawl if connector == "crawl" else self.get_connector(connector)
        own = section.deep_units if deep else section.shallow_units
        return own or (self.pulls.deep_units if deep else self.pulls.shallow_units)

    def list_secret_values(self) -> frozenset[str]:
        """Return every text that must not be shown, for the redactor."""
        hidden = {key for key, about in FIELDS.items() if about.kind.secret}
        secrets = [self.get_value(key) for key in hidden]
        secrets += [
            value
            for tenant in self.tenants
            for key, value in tenant.overrides.items()
            if key in hidden
        ]
        return frozenset(part for secret in secrets if secret for part in secret.list_parts())

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
        lines = [
            ShownSetting(
                key=key,
                value=about.format(self.get_value(key)),
                origin=self.get_origin(key),
                help=about.help,
            )
            for key, about in FIELDS.items()
        ]
        for tenant in self.tenants:
            own = f"tenants.{tenant.id}."
            said = {"name": tenant.name, "enabled": tenant.enabled, **tenant.overrides}
            for key, value in said.items():
                about = FIELDS.get(key) or TENANT_KEYS[key]
                line = ShownSetting(
                    key=own + key,
                    value=about.format(value),
                    origin=self.get_origin(own + key),
                    help=about.help,
                )
                lines.append(line)
        return lines


def build_schedule(scheduling: Scheduling) -> Schedule:
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
