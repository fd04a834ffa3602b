"""`stoker runs rerun`: does again what a run did, by the very command that starts its kind."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

import click

from stoker.base.errors import ConfigError, ConflictError
from stoker.cli.options import choose_tenant, tenant_option
from stoker.cli.output import json_option, pass_context, run_async
from stoker.runs.run_argument import get_run_or_exit

if TYPE_CHECKING:
    from stoker.base.types import TenantId
    from stoker.cli.output import CommandContext, Exit
    from stoker.runs.model import Run

NIGHTLY = "nightly"  # the kind of run; importing it from its room would load the vendors
START_COMMANDS = {  # by kind of run: the command that starts one now
    NIGHTLY: "stoker.nightly.commands:nightly",
    "pulls": "stoker.pulls.commands:run",
    "plan": "stoker.pulls.commands:plan",
    "discovery": "stoker.discovery.commands:discover",
    "sweep": "stoker.heat.commands:sweep",
    "upkeep": "stoker.scheduling.commands:upkeep",
}


@click.command()
@click.argument("name", metavar="RUN")
@click.option("--again", is_flag=True, help="Of a night, also the companies that were done.")
@tenant_option
@json_option
@pass_context
@click.pass_context
def rerun(
    ctx: click.Context,
    asked: CommandContext,
    name: str,
    again: bool,
    tenant: str | None,
    as_json: bool,
) -> Exit | None:
    """Do again what a run did, as a new run now. RUN looks like 20260207_013000, or is `latest`.

    A night: exactly the companies that run chose, without those that were done; nothing is paid
    for twice. Any other kind is started anew for the tenant, as by its own command, and ends,
    prints and exits as that does.
    """
    whose, run = run_async(_get_run_to_repeat(asked, name, tenant=tenant))
    if run.kind not in START_COMMANDS:
        raise ConfigError(f"run {run.name} is of kind {run.kind}, which no command starts")
    if again and run.kind != NIGHTLY:
        raise ConfigError(
            f"--again is about nights, and run {run.name} is of kind {run.kind}; leave it out"
        )
    module, command = START_COMMANDS[run.kind].split(":")
    chosen = {"from_run": run.name, "again": again} if run.kind == NIGHTLY else {}
    ended: Exit | None = ctx.invoke(
        getattr(import_module(module), command), tenants=(whose,), as_json=as_json, **chosen
    )
    return ended


async def _get_run_to_repeat(
    asked: CommandContext, name: str, *, tenant: str | None
) -> tuple[TenantId, Run]:
    """Return a run that has ended, and whose it is. Raises what stands in the way of repeating."""
    from stoker.runs.model import RunState

    async with asked.open_app(only_to_read=True) as app:
        whose = choose_tenant(app.settings, tenant)
        store = app.backend.tenant(whose)
        run = await get_run_or_exit(store, name)
        if run.state is RunState.RUNNING:
            raise ConflictError(
                f"run {run.name} of {whose} is still running; stop it first with: "
                f"stoker runs cancel {run.name} --tenant {whose}"
            )
        if run.kind == NIGHTLY and not await store.nights.count_items(run.name):
            raise ConfigError(
                f"run {run.name} of {whose} had chosen no companies, so there are none to repeat; "
                f"do a night with: stoker nightly --tenant {whose}"
            )
    return whose, run
