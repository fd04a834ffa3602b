"""What the ledger keeps of everything that happens to money, so that totals can be worked out anew.

Each function turns one event into one note: a kind, the key, cap or connector it is about, a
sentence, and the numbers as they were. `replaying` reads these notes back; where they are kept is
the stores' business. Of caps that tenants share, a note tells what was taken, never how full.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from stoker.base.reasons import Reason
from stoker.base.types import Json, in_utc
from stoker.budgets.caps import CapChange
from stoker.budgets.charges import Refused, Request
from stoker.budgets.reservations import Hold, Phase, overrun, settled_late
from stoker.ledger.chain import Note
from stoker.ledger.query import ANY_CONNECTOR, MoneyKind


def reserved_note(hold: Hold, *, now: datetime) -> Note:
    """Return the note of a promise that was given, with all it takes to count it again.

    `charges` and `shared` are lists of [cap, window, amount]; `limits` are those in force then.
    """
    own = [charge for charge in hold.charges if not charge.shared]
    data: dict[str, Json] = {
        **_about(connector=hold.connector, run=hold.run, account=hold.account),
        "amounts": dict(hold.amounts),
        "charges": [[charge.cap, charge.window, charge.amount] for charge in own],
        "limits": {charge.cap: charge.limit for charge in own},
        "phase": hold.phase.value,
        "owner": hold.owner,
        "until": in_utc(hold.until).isoformat(),
    }
    if shared := [charge for charge in hold.charges if charge.shared]:
        data["shared"] = [[charge.cap, charge.window, charge.amount] for charge in shared]
    reason = f"promised {_amounts_text(hold.amounts)} of {hold.connector}"
    return Note(at=now, kind=MoneyKind.RESERVED.value, subject=hold.key, reason=reason, data=data)


def refused_note(request: Request, refused: Refused, *, now: datetime) -> Note:
    """Return the note of a promise that was not given: who said no, and how full it was."""
    data: dict[str, Json] = {
        **_about(connector=request.connector, run=request.run, account=request.account),
        "amounts": dict(request.amounts),
        "code": refused.reason,
    }
    if refused.cap:
        data |= {"cap": refused.cap, "used": refused.used, "limit": refused.limit}
    if refused.resets_at is not None:
        data["resets_at"] = in_utc(refused.resets_at).isoformat()
    kind = MoneyKind.REFUSED
    return Note(at=now, kind=kind.value, subject=request.key, reason=refused.sentence, data=data)


def phase_note(before: Hold, after: Hold, *, now: datetime) -> Note:
    """Return the note of a promise that moved on, from one phase to another.

    A verb that changed nothing has nothing to note: call this only when the phases differ.
    """
    data: dict[str, Json] = {
        **_about(connector=after.connector, run=after.run, account=after.account),
        "from": before.phase.value,
    }
    if after.phase is Phase.SETTLED:
        data["actual"] = dict(after.actual)
        if settled_late(after):
            data["code"] = Reason.SETTLED_LATE.value
        if over := overrun(after):
            data["overrun"] = dict(over)
    kind = MoneyKind(after.phase.value)
    return Note(at=now, kind=kind.value, subject=after.key, reason=_phase_text(after), data=data)


def cap_note(change: CapChange, *, now: datetime) -> Note:
    """Return the note of what a person said about a cap; what was left as it was is not in it."""
    said: list[str] = []
    data: dict[str, Json] = {}
    if change.limit is not None:
        said.append(f"its limit is {change.limit} from now on")
        data["limit"] = change.limit
    kind = MoneyKind.CAP_CHANGED
    if change.raised_to is not None and change.raised_until is not None:
        until = in_utc(change.raised_until)
        data |= {"raised_to": change.raised_to, "raised_until": until.isoformat()}
        if until > now:
            kind = MoneyKind.CAP_RAISED
            said.append(f"it allows {change.raised_to} until {until:%Y-%m-%d %H:%M} UTC")
        else:
            said.append("it is no longer raised")
    return Note(at=now, kind=kind.value, subject=change.cap, reason="; ".join(said), data=data)


def stop_note(connector: str, *, reason: str, now: datetime) -> Note:
    """Return the note of an order to spend nothing more, on a connector or (empty) on any."""
    return Note(
        at=now,
        kind=MoneyKind.STOPPED.value,
        subject=connector or ANY_CONNECTOR,
        reason=reason or "no reason was given",
    )


def resume_note(connector: str, *, now: datetime) -> Note:
    """Return the note of a stop that was taken back."""
    return Note(
        at=now,
        kind=MoneyKind.RESUMED.value,
        subject=connector or ANY_CONNECTOR,
        reason="the stop was taken back",
    )


def decision_note(
    account: str,
    *,
    chosen: bool,
    reason: str,
    sentence: str,
    numbers: Mapping[str, Json],
    probability: float | None = None,
    seed: int | None = None,
    now: datetime,
) -> Note:
    """Return the note of an account that was chosen or passed over, and because of what.

    `reason` is the code, `numbers` are those the decision was made on. Where chance had a say,
    `probability` is how likely it was to be chosen and `seed` repeats the draw.
    """
    data: dict[str, Json] = {"account": account, "code": reason, "numbers": dict(numbers)}
    if probability is not None:
        data["probability"] = probability
    if seed is not None:
        data["seed"] = seed
    kind = MoneyKind.CHOSEN if chosen else MoneyKind.NOT_CHOSEN
    return Note(at=now, kind=kind.value, subject=account, reason=sentence, data=data)


def _about(*, connector: str, run: str | None, account: str | None) -> dict[str, Json]:
    named: dict[str, Json] = {"connector": connector, "run": run, "account": account}
    return {name: value for name, value in named.items() if value is not None}


def _phase_text(hold: Hold) -> str:
    if hold.phase is Phase.SENT:
        return "it may be on its way to the vendor"
    if hold.phase is Phase.SETTLED:
        cost = f"it cost {_amounts_text(hold.actual)}"
        if settled_late(hold):
            return f"{cost}, and had been given back"
        over = overrun(hold)
        return f"{cost}, {_amounts_text(over)} more than promised" if over else cost
    return hold.reason or "no reason was given"


def _amounts_text(amounts: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {name}" for name, number in sorted(amounts.items()))
