"""`stoker replay`: make a kept plan again, as it was or with a number changed, and compare.

Nothing is written, promised or asked for. What vendors would be asked is an expectation, as in a
quote; the caps of vendors say how many looks may be deep.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import click

from stoker.base.errors import ConfigError
from stoker.cli.options import one_tenant, takes_tenant
from stoker.cli.output import Exit, pass_asked, run_async, say, show_json, show_table, takes_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from stoker.base.types import Depth, Json, TenantId
    from stoker.cli.output import Asked
    from stoker.enrichment.forecast import Expected, Quote
    from stoker.pulls.replay import Differs, Outcome, WhatIf
    from stoker.pulls.saved_plans import KeptPlan

_UNITS, _LOOKS = "pull_units", "crawl"

_SHOWN, _NAMED = 20, 5

_DEPTHS = ("NOT", "SHALLOW", "DEEP")


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """What one of two plans comes to."""

    outcome: Outcome
    quote: Quote


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Replayed:
    """A kept plan, made again."""

    tenant: TenantId
    kept: KeptPlan
    differs: tuple[Differs, ...]  # from what was kept, with nothing changed
    in_ledger: str | None  # the digest it tells of; None: it tells of no such plan
    before: Side
    after: Side | None = None  # None: nothing was changed
    gained: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()

    @property
    def ledger_agrees(self) -> bool:
        """Whether the ledger tells of the very decisions that are kept."""
        return self.in_ledger == self.kept.record.header["digest"]


@click.command()
@click.argument("run", metavar="RUN")
@takes_tenant
@click.option(
    "--cap",
    "caps",
    multiple=True,
    metavar="NAME=NUMBER",
    help="With another cap for the day: pull_units of the tenant, crawl for its looks, "
    "or a vendor's calls, e.g. lusha=200. May be repeated.",
)
@click.option(
    "--policy", type=click.Choice(["optimal", "tiers"]), help="With looks chosen by this instead."
)
@takes_json
@pass_asked
def replay(
    asked: Asked,
    run: str,
    tenant: str | None,
    caps: tuple[str, ...],
    policy: str | None,
    as_json: bool,
) -> Exit:
    """Make a kept plan of pulls again: the same, or with a cap or the policy changed.

    RUN is a run's name, or latest. Exit code 1: the same inputs give other decisions now, or the
    ledger tells of others.
    """
    wanted = _wanted(caps)
    found = run_async(_replayed(asked, run, tenant, caps=wanted, policy=policy))
    if as_json:
        show_json(_json(found))
    else:
        _show(found)
    return Exit.PROBLEMS if found.differs or not found.ledger_agrees else Exit.OK


def _wanted(caps: Iterable[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for each in caps:
        name, equals, number = each.partition("=")
        if not equals or not number.isascii() or not number.isdigit() or len(number) > 15:
            raise ConfigError(f"{each[:40]!r} is no cap; write NAME=NUMBER, e.g. lusha=200")
        if name in found:
            raise ConfigError(f"the cap of {name[:40]} is given twice; keep one of the two")
        found[name] = int(number)
    return found


async def _replayed(
    asked: Asked, run: str, tenant: str | None, *, caps: Mapping[str, int], policy: str | None
) -> Replayed:
    from stoker.base.types import Depth
    from stoker.enrichment.vendor_needs import expected
    from stoker.nightly.setup import PAID
    from stoker.pulls.replay import altered, differing, moved, outcome, planned_again
    from stoker.pulls.saved_plans import kept_plan, told_by_ledger
    from stoker.pulls.service import STEPS

    async with asked.app(only_to_read=True) as app:
        whose = one_tenant(app.settings, tenant)
        vendors = [name for name in PAID if not app.connectors.why_off(name, whose)]
        for name in caps:
            if name in PAID and name not in vendors:
                raise ConfigError(f"{name} is off for {whose}, so no look asks it; leave it out")
            if name not in (_UNITS, _LOOKS, *PAID):
                known = ", ".join((_UNITS, _LOOKS, *PAID))
                raise ConfigError(f"there is no cap of {name[:40]!r}; there are {known}")
        store = app.backend.tenant(whose)
        kept = await kept_plan(store, run)
        told = await told_by_ledger(store, kept.record.run)
    now, inputs = kept.record.at, kept.inputs
    plan, decided = planned_again(inputs, now=now)
    differs = tuple(differing(kept.decisions, decided))
    as_it_was = outcome(inputs, plan, now=now)
    needs = expected(set(vendors), steps=STEPS)
    before = Side(outcome=as_it_was, quote=_quote(as_it_was, needs))
    if not caps and policy is None:
        return Replayed(tenant=whose, kept=kept, differs=differs, in_ledger=told, before=before)
    what_if = _what_if(caps, policy)
    other = altered(inputs, what_if, needs=needs[Depth.DEEP])
    changed, chosen = planned_again(other, now=now)
    comes_to = outcome(other, changed, now=now)
    gained, lost = moved(decided, chosen)
    return Replayed(
        tenant=whose,
        kept=kept,
        differs=differs,
        in_ledger=told,
        before=before,
        after=Side(outcome=comes_to, quote=_quote(comes_to, needs)),
        gained=tuple(gained),
        lost=tuple(lost),
    )


def _what_if(caps: Mapping[str, int], policy: str | None) -> WhatIf:
    from stoker.pulls.columns import Policy
    from stoker.pulls.replay import WhatIf

    return WhatIf(
        units=caps.get(_UNITS),
        connector_units=caps.get(_LOOKS),
        policy=None if policy is None else Policy(policy),
        calls={name: calls for name, calls in caps.items() if name not in (_UNITS, _LOOKS)},
    )


def _quote(looks: Outcome, needs: Mapping[Depth, Sequence[Expected]]) -> Quote:
    from stoker.base.types import Depth
    from stoker.enrichment.forecast import quote

    many = {Depth.SHALLOW: looks.looks - looks.deep, Depth.DEEP: looks.deep}
    return quote(many, needs, {}, at_once=1)


def _show(found: Replayed) -> None:
    record, same = found.kept.record, not found.differs
    say(
        f"{found.tenant}, run {record.run}: {len(found.kept.inputs.ids)} accounts planned again by "
        f"policy {record.policy}, as of {record.at:%Y-%m-%d %H:%M} UTC: "
        + ("the same decisions, byte for byte" if same else f"{len(found.differs)} differ")
    )
    if not found.ledger_agrees:
        tells = "other decisions" if found.in_ledger else "no such plan"
        say(f"  The ledger tells of {tells}; see it with: stoker ledger list --kind plan")
    if found.differs:
        show_table(
            ["account", "kept", "now", "depth kept", "depth now"],
            [
                (
                    each.account,
                    each.before.name,
                    each.after.name,
                    _DEPTHS[each.depth_before],
                    _DEPTHS[each.depth_after],
                )
                for each in islice(found.differs, _SHOWN)
            ],
        )
    if found.after is None:
        return
    show_table(["what", "as it was", "changed", "difference"], _rows(found.before, found.after))
    for word, accounts in (("more", found.gained), ("fewer", found.lost)):
        if accounts:
            named = ", ".join(accounts[:_NAMED]) + (", …" if len(accounts) > _NAMED else "")
            say(f"  {len(accounts)} accounts {word}: {named}")
    say("  Nothing was kept, promised or asked for.")


def _rows(before: Side, after: Side) -> list[tuple[str, str, str, str]]:
    one, other = before.outcome, after.outcome
    rows = [
        ("accounts looked at", *_numbers(one.looks, other.looks)),
        ("of them deep", *_numbers(one.deep, other.deep)),
        ("pull units", *_numbers(one.units, other.units)),
    ]
    costs = sorted({*before.quote.cost, *after.quote.cost})
    rows += [
        (name, *_numbers(before.quote.cost.get(name, 0), after.quote.cost.get(name, 0)))
        for name in costs
    ]
    change = other.freshness - one.freshness
    rows += [
        ("price of a unit", f"{one.price:.3g}", f"{other.price:.3g}", ""),
        (
            "up to date, by value",
            f"{one.freshness:.2%}",
            f"{other.freshness:.2%}",
            f"{change:+.2%}",
        ),
    ]
    return rows


def _numbers(one: int, other: int) -> tuple[str, str, str]:
    return f"{one:,}", f"{other:,}", f"{other - one:+,}"


def _json(found: Replayed) -> Json:
    record = found.kept.record
    return {
        "tenant": found.tenant,
        "run": record.run,
        "at": record.at.isoformat(),
        "policy": record.policy,
        "accounts": len(found.kept.inputs.ids),
        "digest": record.header["digest"],
        "same": not found.differs,
        "ledger_agrees": found.ledger_agrees,
        "differs": [
            {
                "account": each.account,
                "kept": each.before.name,
                "now": each.after.name,
                "depth_kept": _DEPTHS[each.depth_before],
                "depth_now": _DEPTHS[each.depth_after],
            }
            for each in found.differs
        ],
        "as_it_was": _side_json(found.before),
        "changed": None if found.after is None else _side_json(found.after),
        "gained": list(found.gained),
        "lost": list(found.lost),
    }


def _side_json(side: Side) -> Json:
    outcome, takes = side.outcome, side.quote
    return {
        "accounts": outcome.looks,
        "deep": outcome.deep,
        "units": outcome.units,
        "price": outcome.price,
        "freshness": outcome.freshness,
        "calls": dict(takes.calls),
        "cost": dict(takes.cost),
    }
