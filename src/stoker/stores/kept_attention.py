"""What every store can keep of signals, heats, looks and plans; the rest is refused.

Each function returns a value as a store gives it back, as `core.keeping` does for other values,
and raises what it raises. Nothing was written when one of them refuses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from stoker.attention import PlanRecord
from stoker.core.companies import CompanyId
from stoker.core.facets import Observed
from stoker.core.heat import AccountHeat, Signal, arrived
from stoker.core.keeping import kept_json, kept_text
from stoker.core.model import in_utc
from stoker.errors import ConflictError, PermanentError
from stoker.stores.kept_accounts import kept_id, kept_run_name
from stoker.stores.kept_knowledge import LONGEST_NAME, kept_name

LARGEST_PART = 64 * 2**20  # bytes


def kept_signals(signals: Iterable[Signal], *, now: datetime) -> dict[str, Signal]:
    """Return signals by id as a store gives them back; of two with one id the first counts."""
    now = in_utc(now)
    kept: dict[str, Signal] = {}
    for signal in signals:
        kept_name(signal.id, what="a signal's id")
        kept_id(signal.account)
        if len(kept_text(signal.source, what="a signal's source").encode()) > LONGEST_NAME:
            raise PermanentError(
                f"a signal's source is longer than {LONGEST_NAME} bytes; nothing was written"
            )
        kept.setdefault(signal.id, arrived(signal, now=now))
    return kept


def kept_postures(postures: Mapping[CompanyId, float]) -> dict[CompanyId, float]:
    """Return postures in the order of their accounts' ids."""
    for account, posture in postures.items():
        kept_id(account)
        _share(posture, what="a posture")
    return {account: float(postures[account]) for account in sorted(postures)}


def kept_heats(
    heats: Sequence[AccountHeat], *, expected: Sequence[AccountHeat]
) -> list[tuple[AccountHeat, AccountHeat]]:
    """Return heats with those they are put in place of, in the order of their accounts' ids."""
    accounts = [heat.account for heat in heats]
    if accounts != [heat.account for heat in expected] or len(set(accounts)) < len(accounts):
        raise PermanentError(
            "heats are put in place of those of the same accounts, each once; nothing was written"
        )
    # What is expected is compared and never written, so it may say anything.
    pairs = zip(map(_heat, heats), expected, strict=True)
    return sorted(pairs, key=lambda pair: pair[0].account)


def kept_looks(looks: Iterable[Observed]) -> dict[str, Observed]:
    """Return looks by their keys; of two with one key the first counts."""
    kept: dict[str, Observed] = {}
    for look in looks:
        kept_name(look.key, what="a look's key")
        kept_id(look.account)
        kept.setdefault(look.key, look)
    return kept


def kept_plan(plan: PlanRecord, parts: Sequence[bytes]) -> PlanRecord:
    """Return what was decided for a run as a store gives it back."""
    kept_run_name(plan.run)
    kept_name(plan.policy, what="a plan's policy")
    if any(len(part) > LARGEST_PART for part in parts):
        raise PermanentError(f"a part of a plan has at most {LARGEST_PART} bytes; make it smaller")
    at = in_utc(plan.at, what="when a plan was made")
    return replace(plan, at=at, header=kept_json(dict(plan.header), what="a plan's header"))


def another_plan(run: str) -> ConflictError:
    """Return what is raised when a run would decide twice."""
    return ConflictError(f"another plan of run {run} is kept already; nothing was written")


def _heat(heat: AccountHeat) -> AccountHeat:
    kept_id(heat.account)
    state, factors = heat.state, heat.factors
    for share in (factors.posture_score, factors.signal_recency, factors.signal_volume):
        _share(share, what="a factor")
    _share(heat.score, what="a score")
    moments = [heat.tier_since, heat.computed_at, heat.updated_at, *state.latest]
    moments += [moment for moment in (heat.below_since, state.as_of) if moment]
    if all(moment.tzinfo is UTC for moment in moments):  # as a store gave them, a million times
        return heat
    state = replace(
        state,
        as_of=_utc(state.as_of, what="the moment of a heat's state"),
        latest=tuple(in_utc(at, what="a signal's time") for at in state.latest),
    )
    return replace(
        heat,
        state=state,
        tier_since=in_utc(heat.tier_since, what="when a tier began"),
        below_since=_utc(heat.below_since, what="when a score fell"),
        computed_at=in_utc(heat.computed_at, what="when a heat was reckoned"),
        updated_at=in_utc(heat.updated_at, what="when a heat changed"),
    )


def _share(number: float, *, what: str) -> None:
    if not 0.0 <= number <= 1.0:
        raise PermanentError(f"{what} is 0 to 1, not {number!r}; nothing was written")


def _utc(moment: datetime | None, *, what: str) -> datetime | None:
    return None if moment is None else in_utc(moment, what=what)
