"""`stoker runs cancel`: asks a run to stop, in whichever process it is carried out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stoker.cli.options import one_tenant, takes_tenant
from stoker.cli.output import pass_asked, run_async, say, show_json, takes_json
from stoker.runs.run_argument import found_run

if TYPE_CHECKING:
    from stoker.base.types import Json, TenantId
    from stoker.cli.output import Asked
    from stoker.runs.cancel import Cancelled


@click.command()
@click.argument("name", metavar="RUN")
@takes_tenant
@takes_json
@pass_asked
def cancel(asked: Asked, name: str, tenant: str | None, as_json: bool) -> None:
    """Ask a run to stop. RUN looks like 20260207_013000, or is `latest`.

    Whichever process or machine carries it out notices within seconds: it begins nothing new, lets
    what is paid for settle, and ends CANCELLED with what remains. A run whose process is gone, 90
    seconds after its last sign of life, is CANCELLED at once. One that has ended is left as it is.
    """
    whose, told = run_async(_cancelled(asked, name, tenant=tenant))
    if as_json:
        show_json(_told_json(whose, told))
    else:
        say(_told_text(whose, told))


async def _cancelled(asked: Asked, name: str, *, tenant: str | None) -> tuple[TenantId, Cancelled]:
    from stoker.runs.cancel import cancelled
    from stoker.runs.service import Runner

    async with asked.app() as app:
        whose = one_tenant(app.settings, tenant)
        store = app.backend.tenant(whose)
        run = await found_run(store, name)
        runner = Runner(clock=app.clock, observer=app.observer)
        return whose, await cancelled(store, run, by=_who(), runner=runner)


def _who() -> str:
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


def _told_text(whose: TenantId, told: Cancelled) -> str:
    run, request = told.run, told.request
    called = f"run {run.name} of {whose}"
    if told.gone:
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


def _told_json(whose: TenantId, told: Cancelled) -> Json:
    run, request = told.run, told.request
    return {
        "tenant": whose,
        "run": run.name,
        "kind": run.kind,
        "state": run.state.value,
        "reason": run.reason,
        "asked_by": request.by if request else None,
        "asked_at": request.at.isoformat() if request else None,
        "process_gone": told.gone,
        "remaining": list(run.manifest.remaining),
    }
