"""When runs start: the schedule, missed occurrences, and how many go on at once."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import time, timedelta

from stoker.base.errors import ConfigError
from stoker.base.types import COMPANIES_PER_NIGHT, TenantId
from stoker.calendar.recurrence import CatchUp, Cron, Interval, Schedule, Window
from stoker.calendar.timezones import Fold, Gap
from stoker.config.fields import (
    BOOLEAN,
    CRON,
    HOUR_MINUTE,
    TENANTS,
    ZONE,
    Section,
    choice,
    integer,
    member,
    number,
    setting,
    tenant_setting,
)


@dataclass(frozen=True, kw_only=True)
class SchedulingSettings(Section):
    """When runs start, and how many go on at once."""

    enabled: bool = tenant_setting(
        BOOLEAN, True, "Whether the schedule starts runs.", "SCHED_ENABLED"
    )
    mode: str = tenant_setting(
        choice("interval", "window", "cron"), "cron", "What kind of schedule it is."
    )
    interval_minutes: int | None = tenant_setting(
        integer(1, 5_270_400), None, "Minutes between runs; mode interval needs it."
    )
    window_time: time | None = tenant_setting(
        HOUR_MINUTE, None, "Time of day, UTC, of the daily run; mode window needs it."
    )
    cron: str = tenant_setting(
        CRON, "0 1 * * *", "When runs start, in the time zone; for mode cron.", "SCHED_START_CRON"
    )
    timezone: str = setting(
        ZONE, "Asia/Singapore", "The time zone of the cron line.", "SCHED_TIMEZONE"
    )
    gap: Gap = tenant_setting(
        member(Gap), Gap.SHIFT, "A time the clock skips in spring: run at the shift, or skip it."
    )
    fold: Fold = tenant_setting(
        member(Fold), Fold.FIRST, "A time the clock shows twice in autumn: which of the two runs."
    )
    catch_up: CatchUp = tenant_setting(
        member(CatchUp), CatchUp.LATEST, "Which missed runs start once Stoker is back."
    )
    catch_up_max: int = tenant_setting(
        integer(1, 1000), 24, "How many missed runs start at most; for catch_up all."
    )
    tenant_concurrency: int = setting(
        integer(1, 100),
        3,
        "Tenants worked on at once, for each kind of work.",
        "SCHED_TENANT_CONCURRENCY",
    )
    stagger_s: float = setting(
        number(0, 600), 2.0, "Seconds between the starts of nightly runs due at the same time."
    )
    company_concurrency: int = tenant_setting(
        integer(1, 200), 8, "Companies worked on at once, per tenant.", "SCHED_COMPANY_CONCURRENCY"
    )
    daily_cap_per_tenant: int = tenant_setting(
        integer(0, 1_000_000),
        COMPANIES_PER_NIGHT,
        "Companies researched per tenant and run at most.",
        "SCHED_DAILY_CAP_PER_TENANT",
        "SHORTLIST_DAILY_CAP",
    )
    deadline_minutes: int = tenant_setting(
        integer(1, 1440),
        90,
        "Minutes a nightly run may take; it skips the least valuable companies to end in time.",
    )
    tenant_include: tuple[TenantId, ...] = setting(
        TENANTS, (), "Only these tenants run; empty means all.", "SCHED_TENANT_INCLUDE"
    )
    tenant_exclude: tuple[TenantId, ...] = setting(
        TENANTS, (), "These tenants do not run, included or not.", "SCHED_TENANT_EXCLUDE"
    )

    def build_schedule(self) -> Schedule:
        """Return when runs are due. Raises ConfigError when the mode lacks its setting."""
        if self.mode == "interval":
            if self.interval_minutes is None:
                raise ConfigError(
                    "scheduling.mode is interval; set scheduling.interval_minutes too"
                )
            return Interval(timedelta(minutes=self.interval_minutes))
        if self.mode == "window":
            if self.window_time is None:
                raise ConfigError(
                    'scheduling.mode is window; set scheduling.window_time, e.g. "01:30"'
                )
            return Window(self.window_time)
        return Cron(self.cron, self.timezone, self.gap, self.fold)
