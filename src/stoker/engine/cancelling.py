"""Asks a run to stop, wherever it is carried out; ends it at once when nobody is there any more.

The request is in the store before anything else happens, so a process that was only held still
finds it and stops too. How work heeds a request is known by `heeding`.
"""

from __future__ import annotations

from dataclasses import dataclass

from stoker.core.runs import CancelRequest, Run, RunState
from stoker.engine.giving_up import is_gone
from stoker.engine.promises import see_to_lapsed
from stoker.engine.running import Runner
from stoker.errors import ConflictError
from stoker.ports import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled:
    """What became of asking: the run as it stands, and whose request it was asked by.

    RUNNING: it will notice. Ended and `gone`: its process was, so it was ended now. Ended
    otherwise: it had been before, and nothing was changed.
    """

    run: Run
    request: CancelRequest | None = None
    gone: bool = False


async def cancelled(store: Store, run: Run, *, by: str, runner: Runner) -> Cancelled:
    """Ask a run to stop. Twice is once: whoever asked first is the one who asked."""
    now = runner.clock.now()
    request = await store.runs.ask_to_cancel(run.at, CancelRequest(by=by, at=now))
    if request is None:
        return Cancelled(run=await _as_it_is(store, run))
    if not await is_gone(store, run, now=now):
        return Cancelled(run=run, request=request)
    try:
        ended = await runner.close_cancelled(store, run, request)
    except ConflictError:  # it came to its end this very moment
        return Cancelled(run=await _as_it_is(store, run), request=request)
    await see_to_lapsed(store, now=now, observer=runner.observer)
    return Cancelled(run=ended, request=request, gone=True)


async def _as_it_is(store: Store, run: Run) -> Run:
    there = await store.runs.run(run.at)
    if there is None or there.state is RunState.RUNNING:
        raise ConflictError(f"run {run.name} changed while it was looked at; try again")
    return there
