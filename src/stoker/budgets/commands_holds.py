"""`stoker holds`: every open promise, and saying by hand what became of one nobody knows about."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import click

from stoker.base.errors import ConfigError
from stoker.base.types import Json, TenantId
from stoker.budgets.caps import unit
from stoker.budgets.reservations import OPEN, Hold, Phase, overrun
from stoker.budgets.views import position, show_statements, statement_json, typed_amount
from stoker.calendar.timezones import duration_text
from stoker.cli.options import chosen_tenants, one_tenant, takes_tenant, takes_tenants
from stoker.cli.output import (
    Exit,
    complain,
    pass_asked,
    run_async,
    say,
    show_json,
    show_table,
    takes_json,
)

if TYPE_CHECKING:
    from stoker.cli.output import Asked
    from stoker.context import Store

Held = tuple[TenantId, Hold]


@click.group(invoke_without_command=True)
@takes_tenants
@takes_json
@pass_asked
@click.pass_context
def holds(ctx: click.Context, asked: Asked, tenants: tuple[str, ...], as_json: bool) -> Exit | None:
    """List open promises with owner, age, expiry and phase, and how full each cap is.

    What is reserved is held against the promises; exit code 1 when it does not add up.
    """
    if ctx.invoked_subcommand is not None:
        if tenants or as_json:
            raise click.UsageError(f"options come after `{ctx.invoked_subcommand}`", ctx)
        return None
    return run_async(_list(asked, tenants, as_json=as_json))


async def _list(asked: Asked, tenants: tuple[str, ...], *, as_json: bool) -> Exit:
    async with asked.app(only_to_read=True) as app:
        now, chosen = app.clock.now(), chosen_tenants(app.settings, tenants)
        found = [await position(app, tenant, now=now) for tenant in chosen]
    held = [(one.tenant, hold) for one in found for hold in one.holds]
    lines = [(str(one.tenant), line) for one in found for line in one.statements]
    wrong = [f"{one.tenant}: {line}" for one in found for line in one.wrong]
    if as_json:
        show_json(
            {
                "holds": [hold_json(*each) for each in held],
                "caps": [statement_json(*line) for line in lines],
                "wrong": wrong,
            }
        )
    else:
        show_holds(held, now=now, empty="no open promises")
        _show_what_to_do([each for each in held if each[1].phase is Phase.UNCERTAIN])
        say()
        show_statements(lines)
    for line in wrong:
        complain(f"{line}; look closer with: stoker ledger verify")
    return Exit.PROBLEMS if wrong else Exit.OK


@holds.command()
@click.argument("key", metavar="KEY")
@click.argument("amounts", metavar="UNIT=AMOUNT...", nargs=-1, required=True)
@takes_tenant
@takes_json
@pass_asked
def settle(
    asked: Asked, key: str, amounts: tuple[str, ...], tenant: str | None, as_json: bool
) -> None:
    """Say that an uncertain promise was done, and what it cost; a unit left out cost nothing."""
    run_async(_settle(asked, key, _amounts(amounts), tenant=tenant, as_json=as_json))


async def _settle(
    asked: Asked, key: str, actual: dict[str, int], *, tenant: str | None, as_json: bool
) -> None:
    async with asked.app() as app:
        store = app.backend.tenant(one_tenant(app.settings, tenant))
        hold = await _found(store, key, now=app.clock.now())
        if more := sorted(set(actual) - set(hold.amounts)):
            units = ", ".join(sorted(hold.amounts))
            raise ConfigError(f"{key} was promised {units}, not {', '.join(more)}")
        hold = await store.money.settle(key, actual, now=app.clock.now())
    if as_json:
        show_json(_ended_json(store.tenant, hold))
        return
    over = _text(overrun(hold))
    say(
        f"{key} is settled: {_text(hold.actual)}" + (f", {over} over its promise." if over else ".")
    )


@holds.command()
@click.argument("key", metavar="KEY")
@click.option("--reason", required=True, metavar="TEXT", help="How you know that nothing was done.")
@takes_tenant
@takes_json
@pass_asked
def release(asked: Asked, key: str, reason: str, tenant: str | None, as_json: bool) -> None:
    """Say that nothing was done under an uncertain promise; its amounts are free again."""
    run_async(_release(asked, key, reason=reason, tenant=tenant, as_json=as_json))


async def _release(
    asked: Asked, key: str, *, reason: str, tenant: str | None, as_json: bool
) -> None:
    if not reason.strip():
        raise ConfigError("--reason is empty; say how you know that nothing was done")
    async with asked.app() as app:
        store = app.backend.tenant(one_tenant(app.settings, tenant))
        await _found(store, key, now=app.clock.now())
        hold = await store.money.release(key, reason=reason, now=app.clock.now())
    if as_json:
        show_json(_ended_json(store.tenant, hold))
        return
    say(f"{key} is released: {_text(hold.amounts)} free again.")


def show_holds(held: Sequence[Held], *, now: datetime, empty: str) -> None:
    """Print promises, each under its tenant."""
    show_table(
        ["tenant", "key", "connector", "phase", "promised", "owner", "age", "lease"],
        [
            (
                tenant,
                hold.key,
                hold.connector,
                hold.phase.value,
                _text(hold.amounts),
                hold.owner,
                duration_text(max(now - hold.reserved_at, timedelta(0))),
                _lease(hold, now=now),
            )
            for tenant, hold in held
        ],
        empty=empty,
    )


def hold_json(tenant: TenantId, hold: Hold) -> dict[str, Json]:
    """Return a promise for programs."""
    return {
        "tenant": tenant,
        "key": hold.key,
        "connector": hold.connector,
        "phase": hold.phase.value,
        "amounts": dict(hold.amounts),
        "owner": hold.owner,
        "reserved_at": hold.reserved_at.isoformat(),
        "until": hold.until.isoformat(),
        "run": hold.run,
        "account": hold.account,
        "reason": hold.reason,
    }


def _ended_json(tenant: TenantId, hold: Hold) -> Json:
    return hold_json(tenant, hold) | {"actual": dict(hold.actual), "overrun": overrun(hold)}


def _show_what_to_do(held: Sequence[Held]) -> None:
    if not held:
        return
    say(f"\n{len(held)} may have been done; nobody knows. Look at the vendor's side, then say")
    for tenant, hold in held:
        key, cost = shlex.quote(hold.key), _typed(hold.amounts)
        # After the options, and behind -- where it could be taken for one.
        key = f"-- {key}" if hold.key.startswith("-") else key
        say(f"  stoker holds settle --tenant {tenant} {key} {cost}    if it was done, at that cost")
        say(f"  stoker holds release --tenant {tenant} --reason '…' {key}    if it was not")


async def _found(store: Store, key: str, *, now: datetime) -> Hold:
    """Return a promise that a person may speak for: nobody is at work on it any more."""
    hold = await store.money.hold(key)
    if hold is None:
        raise ConfigError(
            f"{store.tenant} has no promise {key!r}; see those there are with: stoker holds"
        )
    if hold.phase not in OPEN:
        raise ConfigError(
            f"{key} is {hold.phase} already; see: stoker ledger list --tenant {store.tenant}"
        )
    if hold.phase is not Phase.UNCERTAIN and now < hold.until:
        raise ConfigError(
            f"{hold.owner} is at work on {key}, at least until {hold.until:%Y-%m-%d %H:%M:%S} UTC; "
            "it will say itself what became of it"
        )
    return hold


def _amounts(typed: tuple[str, ...]) -> dict[str, int]:
    amounts: dict[str, int] = {}
    for text in typed:
        name, equals, number = text.partition("=")
        if not equals:
            raise ConfigError(f"{text!r} is not UNIT=AMOUNT; write e.g. calls=1")
        if unit(name) in amounts:
            raise ConfigError(f"{name} is given twice; say it once")
        amounts[name] = typed_amount(number, what=name)
    return amounts


def _lease(hold: Hold, *, now: datetime) -> str:
    if hold.phase is Phase.UNCERTAIN:
        return "kept until somebody says"
    if now < hold.until:
        return f"ends in {duration_text(hold.until - now)}"
    return f"ended {duration_text(now - hold.until)} ago"


def _text(amounts: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {name}" for name, number in sorted(amounts.items()))


def _typed(amounts: Mapping[str, int]) -> str:
    return " ".join(f"{name}={number}" for name, number in sorted(amounts.items()))
