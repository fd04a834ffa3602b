"""`doctor`: check that everything is in place for the next run. It changes nothing.

`Backend.checks` checks the store; here are the checks of settings, keys, zones, the clock, tenants
and the schedule, and the list of caps that will be enforced. A check is ok, wrong, or a warning:
something is off, with what that costs and the command that changes it.
"""

from __future__ import annotations

import shlex
from datetime import UTC, datetime
from pathlib import Path

import click

from stoker import app
from stoker.base.clock import Clock, clock_went_backwards
from stoker.base.errors import ConfigError, StokerError
from stoker.base.formats import format_count, format_duration
from stoker.base.types import Json, TenantId
from stoker.budgets.operator import format_resume_command
from stoker.budgets.reservations import ReservationStatus
from stoker.calendar.recurrence import Interval, compute_next_run
from stoker.calendar.timezones import get_zone
from stoker.cli.output import (
    CommandContext,
    Exit,
    json_option,
    pass_context,
    print_json,
    print_table,
    print_text,
    run_async,
)
from stoker.context import Backend
from stoker.db.database import Check
from stoker.http.fields import is_sandbox_url
from stoker.settings import Settings, get_field
from stoker.settings.load import add_stored_tenants
from stoker.touches.setup import check_touches
from stoker.vendors.table import PAID_VENDORS, VENDORS, get_off_reason, list_addresses

MIN_PLAUSIBLE_TIME = datetime(2026, 1, 1, tzinfo=UTC)  # this program did not exist before

MAX_PLAUSIBLE_TIME = datetime(2100, 1, 1, tzinfo=UTC)


_COSTS = {  # what is missing without a vendor
    "tavily": "websites that the register does not name are not found",
    "openai": "facts come from page markup only",
    "lusha": "people are found on websites only",
    "zerobounce": "email addresses stay unverified",
}

_NO_CRM = "no lead reaches a CRM"


@click.command()
@json_option
@pass_context
def doctor(asked: CommandContext, *, as_json: bool) -> Exit:
    """Check settings, keys, store, time zones, clock, tenants and schedule; list every cap.

    Exits with 1 when something is wrong; a warning says what is off, what that costs and the next
    command. Values of keys are never printed.
    """
    caps: dict[str, dict[str, int]] = {}
    try:
        settings = asked.read_settings()
    except ConfigError as error:
        checks = [Check(what="settings", ok=False, detail=line) for line in error.args]
    else:
        settings = run_async(_add_stored_tenants(settings))
        checks = run_async(run_checks(settings, clock=app.system_clock()))
        checks += _check_privacy(asked, settings)
        caps = {
            tenant: settings.for_tenant(tenant).list_cap_values()
            for tenant in settings.list_active_tenants()
        }
    healthy = all(check.ok for check in checks)
    if as_json:
        found: Json = [
            {"what": c.what, "ok": c.ok, "level": c.level, "detail": c.detail} for c in checks
        ]
        print_json({"ok": healthy, "checks": found, "caps": caps})
    else:
        _print_checks(checks, caps)
    return Exit.OK if healthy else Exit.PROBLEMS


async def _add_stored_tenants(settings: Settings) -> Settings:
    """Return the settings with the stored tenants, if the store can be read."""
    try:
        backend = app.build_backend(settings)
    except StokerError:
        return settings  # the checks say what is wrong
    try:
        if await backend.schema_version() == 0:
            return settings
        return add_stored_tenants(settings, await backend.directory().list_tenants())
    except StokerError:
        return settings  # as above
    finally:
        await backend.close()


async def run_checks(settings: Settings, *, clock: Clock) -> list[Check]:
    """Run every check, in the order people think about them."""
    now = clock.now()
    checks = [_check_settings(settings), *_check_sandbox(settings)]
    checks += [
        Check(
            what=key,
            ok=True,
            is_warning=True,
            detail=f"names {named}, and no tenant has this id ({settings.get_origin(key)})",
        )
        for key, named in settings.list_unknown_tenants()
    ]
    checks += [_check_key(settings, vendor) for vendor in PAID_VENDORS]
    checks += [_check_connectors(settings, tenant) for tenant in settings.list_active_tenants()]
    checks += [*_check_zones(settings, now), _check_plausible_time(now)]
    try:
        backend = app.build_backend(settings)
    except StokerError as error:
        checks.append(Check(what="store", ok=False, detail=str(error)))
    else:
        try:
            checks += await _check_store(backend, settings, now)
        finally:
            await backend.close()
    return checks + check_touches(settings, now) + _check_next_runs(settings, now)


async def _check_store(backend: Backend, settings: Settings, now: datetime) -> list[Check]:
    checks = [Check(what="store", ok=True, detail=settings.storage.backend)]
    try:
        if await backend.schema_version() == 0 and settings.storage.backend in ("sqlite", "json"):
            new = "nothing there yet; the first command makes it, or: stoker db setup"
            return [*checks, Check(what="schema version", ok=True, detail=new)]
        checks += await backend.checks()
        if all(check.ok for check in checks):
            tenants = settings.list_active_tenants()
            for tenant in tenants:
                checks.append(await _check_clock(backend, tenant, now))
                checks += await _check_tenant(backend, settings, tenant)
    except StokerError as error:
        checks.append(Check(what="store opens", ok=False, detail=str(error)))
    return checks


async def _check_clock(backend: Backend, tenant: TenantId, now: datetime) -> Check:
    seen = await backend.tenant(tenant).schedule.find_latest_entry_at()
    what = f"clock, {tenant}"
    if seen is None:
        return Check(what=what, ok=True, detail="nothing decided yet")
    if clock_went_backwards(now, latest=seen):
        detail = (
            f"{seen:%Y-%m-%d %H:%M} UTC is already recorded and lies ahead; set the clock, or if "
            "it is right now: stoker schedule accept-clock"
        )
        return Check(what=what, ok=False, detail=detail)
    return Check(what=what, ok=True, detail=f"last decision {seen:%Y-%m-%d %H:%M} UTC")


async def _check_tenant(backend: Backend, settings: Settings, tenant: TenantId) -> list[Check]:
    """Warn of what keeps a tenant's next run from spending, or from finding anyone."""
    store, own = backend.tenant(tenant), settings.for_tenant(tenant)
    checks = [_check_zero_caps(own, tenant)]
    stops = await store.budgets.list_stops()
    checks.append(
        Check(
            what=f"stops, {tenant}",
            ok=True,
            detail="; ".join(
                f"{stop.connector or 'all spending'} is stopped "
                f"({stop.reason or 'no reason was given'}), so nothing is bought there: "
                f"{format_resume_command(stop)}"
                for stop in stops
            )
            or "none in force",
            is_warning=bool(stops),
        )
    )
    open_holds = await store.budgets.list_reservations(phases=[ReservationStatus.UNCERTAIN])
    if open_holds:
        count = format_count(len(open_holds), "reservation")
        detail = f"{count} of unknown outcome use up caps until you decide: stoker holds"
        checks.append(
            Check(what=f"reservations, {tenant}", ok=True, detail=detail, is_warning=True)
        )
    rule = await store.accounts.find_rule(own.icp.rule_name)
    companies = await store.accounts.list_companies(limit=1)
    detail = f"ICP {own.icp.rule_name!r} is set, accounts are known"
    if rule is None:
        detail = (
            f"no ICP {own.icp.rule_name!r}, so no night selects anyone: "
            f"stoker icp set --tenant {tenant}"
        )
    elif not companies:
        detail = (
            "no accounts yet, so a run has nothing to do: stoker registry import --download, or "
            "stoker accounts import FILE.csv"
        )
    checks.append(
        Check(
            what=f"accounts, {tenant}",
            ok=True,
            detail=detail,
            is_warning=rule is None or not companies,
        )
    )
    return checks


def _check_zero_caps(own: Settings, tenant: TenantId) -> Check:
    zero = [key for key, limit in own.list_cap_values().items() if limit == 0]
    detail = "each allows something"
    if zero:
        detail = f"{', '.join(zero)}: 0, so nothing is bought under it; set it in {app.CONFIG_FILE}"
    return Check(what=f"caps, {tenant}", ok=True, detail=detail, is_warning=bool(zero))


def _check_privacy(asked: CommandContext, settings: Settings) -> list[Check]:
    """Warn of settings and stores that other users of this machine can read or change."""
    storage = settings.storage
    paths = [asked.config or asked.directory / app.CONFIG_FILE, asked.directory / app.ENV_FILE]
    if storage.backend == "sqlite":
        paths += [Path(f"{storage.sqlite_path}{end}") for end in ("", "-wal", "-shm")]
    elif storage.backend == "json":
        paths.append(storage.json_dir)
    there = [path for path in paths if path.exists()]
    shared = [path for path in there if path.stat().st_mode & 0o077]
    if not there:
        return []
    detail = f"{format_count(len(there), 'file')}, no other user can read or change them"
    if shared:
        names = " ".join(shlex.quote(str(path)) for path in shared)
        detail = f"other users of this machine may use them; run: chmod go-rwx {names}"
    return [Check(what="private files", ok=True, detail=detail, is_warning=bool(shared))]


def _check_settings(settings: Settings) -> Check:
    given = sum(1 for line in settings.list_shown() if line.origin != "default")
    return Check(what="settings", ok=True, detail=f"readable; {given} differ from the defaults")


def _check_sandbox(settings: Settings) -> list[Check]:
    address = settings.sandbox.address
    if address is None:
        return []
    notice = f"ON, at {address}: vendors are fake and real keys stay here; to work for real, "
    return [Check(what="SANDBOX", ok=True, detail=f"{notice}unset sandbox.address")]


def _check_connectors(settings: Settings, tenant: TenantId) -> Check:
    """List which connectors are on, and those that are real while the sandbox is on."""
    own = settings.for_tenant(tenant)
    off = [name for name in VENDORS if get_off_reason(own, name)]
    on = [name for name in VENDORS if name not in off]
    detail = f"on: {', '.join(on)}"
    if off:
        detail += f"; off: {', '.join(off)} (why: stoker connectors list)"
        detail += f"; {_NO_CRM}: stoker crm connect --tenant {tenant}" if "odoo" in off else ""
    real = [
        name
        for name in on
        if name != "crawl" and not any(map(is_sandbox_url, list_addresses(own, name)))
    ]
    if settings.sandbox.address is not None and real:
        detail += f"; REAL although the sandbox is on: {', '.join(real)}"
    return Check(what=f"connectors, {tenant}", ok=True, detail=detail, is_warning=bool(off))


def _check_key(settings: Settings, vendor: str) -> Check:
    key = f"keys.{vendor}"
    if settings.get_value(key) is None:
        cost = _COSTS.get(vendor, f"{vendor} is not called")
        detail = f"not set, so {cost}; set {get_field(key).env[0]} in {app.ENV_FILE}"
        return Check(what=key, ok=True, detail=detail, is_warning=True)
    return Check(what=key, ok=True, detail=f"set, from {settings.get_origin(key)}")


def _check_zones(settings: Settings, now: datetime) -> list[Check]:
    tenants = settings.list_active_tenants()
    names = {settings.for_tenant(tenant).scheduling.timezone for tenant in tenants}
    return [
        Check(
            what="time zone",
            ok=True,
            detail=f"{name}, where it is {now.astimezone(get_zone(name)):%Y-%m-%d %H:%M %z}",
        )
        for name in sorted(names)
    ]


def _check_plausible_time(now: datetime) -> Check:
    ok = MIN_PLAUSIBLE_TIME <= now < MAX_PLAUSIBLE_TIME
    detail = f"{now:%Y-%m-%d %H:%M:%S} UTC" + ("" if ok else "; set the machine's clock")
    return Check(what="clock", ok=ok, detail=detail)


def _check_next_runs(settings: Settings, now: datetime) -> list[Check]:
    tenants = settings.list_active_tenants()
    if not tenants:
        return [Check(what="tenants", ok=False, detail="none takes part; see tenant_include")]
    return [
        Check(
            what=f"next run, {tenant}",
            ok=True,
            detail=_format_next_run(settings, tenant, now),
            is_warning=not settings.for_tenant(tenant).scheduling.enabled,
        )
        for tenant in tenants
    ]


def _format_next_run(settings: Settings, tenant: TenantId, now: datetime) -> str:
    scheduling = settings.for_tenant(tenant).scheduling
    if not scheduling.enabled:
        return "scheduling.enabled is false, so runs start by hand only: stoker nightly"
    schedule = settings.get_schedule(tenant)
    if isinstance(schedule, Interval):
        return f"{format_duration(schedule.every)} after the last one; see: stoker schedule next"
    at = compute_next_run(now, schedule)
    there = at.astimezone(get_zone(scheduling.timezone))
    return f"{at:%Y-%m-%d %H:%M} UTC ({there:%H:%M} in {scheduling.timezone})"


def _print_checks(checks: list[Check], caps: dict[str, dict[str, int]]) -> None:
    marks = {"ok": "ok", "warning": "warning", "wrong": "WRONG"}
    print_table(("check", "", "detail"), ((c.what, marks[c.level], c.detail) for c in checks))
    for tenant, own in caps.items():
        print_text(f"\nCaps that will be enforced for {tenant}:")
        print_table(
            ("cap", "at most", "of what"),
            ((key, f"{limit:,}", get_field(key).help) for key, limit in own.items()),
            right=("at most",),
        )
    print_text(f"\n{_format_summary(checks)}")


def _format_summary(checks: list[Check]) -> str:
    """Return how many checks are wrong or warn; all in place only if none does."""
    wrong = sum(check.level == "wrong" for check in checks)
    warnings = sum(check.level == "warning" for check in checks)
    if not wrong and not warnings:
        return "All is in place."
    found = [f"{wrong} wrong"] if wrong else ["nothing wrong"]
    if warnings:
        found.append(f"{warnings} {'warning' if warnings == 1 else 'warnings'}")
    return f"{len(checks)} checks: {', '.join(found)}."
