"""`stoker runs cancel`: asks a run to stop, in whichever process it is carried out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stoker.cli.options import choose_tenant, tenant_option
from stoker.cli.output import json_option, pass_context, print_json, print_text, run_async
from stoker.runs.run_argument import get_run_or_exit

if TYPE_CHECKING:
    from stoker.base.types import Json, TenantId
    from stoker.cli.output import CommandContext
    from stoker.runs.cancel import CancelResult


@click.command()
@click.argument("name", metavar="RUN")
@tenant_option
@json_option
@pass_context
def cancel(asked: CommandContext, name: str, tenant: str | None, as_json: bool) -> None:
    """Ask a run to stop. RUN looks like 20260207_013000, or is `latest`.

    Whichever process or machine carries it out notices within seconds: it begins nothing new, lets
    what is paid for settle, and ends CANCELLED with what remains. A run whose process is gone, 90
    seconds after its last sign of life, is CANCELLED at once. One that has ended is left as it is.
    """
    whose, told = run_async(_request_cancel(asked, name, tenant=tenant))
    if as_json:
        print_json(_to_cancel_json(whose, told))
    else:
        print_text(_format_cancel(whose, told))


async def _request_cancel(
    asked: CommandContext, name: str, *, tenant: str | None
) -> tuple[TenantId, CancelResult]:
    from stoker.enrichment.summary import summarize_partial_run
    from stoker.runs.cancel import request_cancel
    from stoker.runs.service import Runner

    async with asked.open_app() as app:
        whose = choose_tenant(app.settings, tenant)
        store = app.backend.tenant(whose)
        run = await get_run_or_exit(store, name)
        runner = Runner(clock=app.clock, observer=app.observer, summarize=summarize_partial_run)
        return whose, await request_cancel(store, run, by=_get_user(), runner=runner)


def _get_user() -> str:
    """Return who says so, and where: the account this process runs under, and its machine."""
    import os
    import pwd
    import socket

    from stoker.base.types import clean_text

    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container may have no name for its user
        name = f"user {os.getuid()}"
    return clean_text(f"{name}@{socket.gethostname()}")


def _format_cancel(whose: TenantId, told: CancelResult) -> str:
    run, request = told.run, told.request
    called = f"run {run.name} of {whose}"
    if told.process_died:
        left = len(run.manifest.remaining)
        remain = f", and {left} companies remain" if left else ""
        return (
            f"{called} is CANCELLED: its process was gone{remain}\n"
            f"go on with: stoker runs rerun {run.name} --tenant {whose}"
        )
    if run.ended_at is not None or request is None:
        return f"{called} has already ended as {run.state.value}; nothing was changed"
    return (
        f"{called} was asked to stop by {request.by} at {request.at:%Y-%m-%d %H:%M:%S} UTC; "
        "it begins nothing new and ends once what is paid for has settled\n"
        f"see it end with: stoker runs show {run.name} --tenant {whose}\n"
        "if its process was killed, ask again in 90 seconds: then it is CANCELLED at once"
    )


def _to_cancel_json(whose: TenantId, told: CancelResult) -> Json:
    run, request = told.run, told.request
    return {
        "tenant": whose,
        "run": run.name,
        "kind": run.kind,
        "state": run.state.value,
        "reason": run.reason,
        "asked_by": request.by if request else None,
        "asked_at": request.at.isoformat() if request else None,
        "process_gone": told.process_died,
        "remaining": list(run.manifest.remaining),
    }
