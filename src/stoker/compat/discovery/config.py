"""Translate the nested dicts that discovery scripts pass into schedules and rules."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from stoker.base.errors import ConfigError, PermanentError
from stoker.calendar import recurrence
from stoker.calendar.recurrence import Cron, Interval, Schedule, Window
from stoker.calendar.timezones import Fold, Gap
from stoker.discovery.settings import DiscoverySettings
from stoker.runs.model import format_run_name, parse_run_name
from stoker.runs.settings import RetentionRule

Config = Mapping[str, Any]

_MODES = "interval, window or cron"


def compute_next_run(now_utc: datetime, config: Config) -> datetime:
    """Return the first time strictly after now that `config["scheduling"]` names."""
    return recurrence.compute_next_run(now_utc, parse_schedule(config))


def should_run(now_utc: datetime, last_run_ts: datetime | str | None, config: Config) -> bool:
    """Return whether a run is due; the last one is given by its time or its name, None: never."""
    last = parse_run_ts(last_run_ts) if isinstance(last_run_ts, str) else last_run_ts
    return recurrence.should_run(now_utc, last, parse_schedule(config))


def parse_schedule(config: Config) -> Schedule:
    """Return the schedule of a config; without one, an hour. Raises ConfigError."""
    section = get_section(config, "scheduling")
    mode = str(section.get("mode") or "interval").lower()
    if mode == "interval":
        minutes = _parse_int(section.get("interval_minutes") or 60, "scheduling.interval_minutes")
        return Interval(timedelta(minutes=minutes))
    if mode == "window":
        return Window.parse(str(section.get("window_time") or "09:00").rjust(5, "0"))
    if mode == "cron":
        usual = Cron()
        return Cron(
            str(section.get("cron") or usual.expression),
            str(section.get("timezone") or usual.zone),
            Gap(section.get("gap") or Gap.SHIFT),
            Fold(section.get("fold") or Fold.FIRST),
        )
    raise ConfigError(f"scheduling.mode is {mode[:40]!r}; it may be {_MODES}")


def parse_retention(config: Config) -> RetentionRule | None:
    """Return by which rule runs are deleted; None when none are."""
    section = get_section(config, "retention")
    if section.get("days") is None or section.get("enabled") is False:
        return None
    keep = section.get("keep_latest_n_runs") or 1
    return RetentionRule(
        enabled=True,
        days=_parse_int(section["days"], "retention.days"),
        keep_latest=_parse_int(keep, "retention.keep_latest_n_runs"),
    )


def parse_scoring(config: Config) -> DiscoverySettings:
    """Return by which words, weights and thresholds postings are scored."""
    usual = DiscoverySettings()
    words = get_section(get_section(config, "enrichment"), "keywords")
    scoring = get_section(config, "scoring")
    weights, limits = get_section(scoring, "weights"), get_section(scoring, "thresholds")
    return DiscoverySettings(
        roles=_parse_words(words.get("role"), usual.roles),
        stack=_parse_words(words.get("stack"), usual.stack),
        role_weight=float(weights.get("role_fit", usual.role_weight)),
        stack_weight=float(weights.get("stack", usual.stack_weight)),
        remote_weight=float(weights.get("remote", usual.remote_weight)),
        exceptional_from=float(limits.get("exceptional", usual.exceptional_from)),
        strong_from=float(limits.get("strong", usual.strong_from)),
        moderate_from=float(limits.get("moderate", usual.moderate_from)),
    )


def parse_run_ts(run_ts: str) -> datetime:
    """Return the UTC second of a run: `YYYYMMDD_HHMMSS`, or ISO 8601. Raises ConfigError."""
    try:
        found = datetime.fromisoformat(run_ts) if "-" in run_ts else parse_run_name(run_ts)
    except ValueError:
        found = parse_run_name(run_ts)
    moment = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    return moment.astimezone(UTC).replace(microsecond=0)


def get_run_ts(summary: Config) -> str:
    """Return the name of the run a summary is about. Raises PermanentError when it has none."""
    given = str(summary.get("run_ts") or summary.get("timestamp_utc") or "")
    try:
        return format_run_name(parse_run_ts(given))
    except ConfigError:
        raise PermanentError(
            "a run's summary has its run_ts, like 20260207_013000, or its timestamp_utc; "
            "nothing was written"
        ) from None


def get_section(config: Config, name: str) -> Config:
    """Return a part of a config, under its name in small or capital letters; empty if missing."""
    found = config.get(name, config.get(name.upper())) or {}
    if not isinstance(found, Mapping):
        raise ConfigError(f"{name} is a dict in a config, not {type(found).__name__}")
    return found


def _parse_int(value: Any, key: str) -> int:
    try:
        return int(value)
    except (TypeError, ValueError):
        raise ConfigError(f"{key} is {str(value)[:40]!r}; it must be a whole number") from None


def _parse_words(given: Any, usual: tuple[str, ...]) -> tuple[str, ...]:
    if given is None:
        return usual
    return tuple(dict.fromkeys(str(word).strip().lower() for word in given if str(word).strip()))
