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
from stoker.cli.options import choose_tenant, tenant_option
from stoker.cli.output import (
    Exit,
    json_option,
    pass_context,
    print_json,
    print_table,
    print_text,
    run_async,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from stoker.base.types import Depth, Json, TenantId
    from stoker.cli.output import CommandContext
    from stoker.enrichment.forecast import Quote, VendorNeed
    from stoker.pulls.saved_plans import DecisionDiff, PlanTotals, SavedPlan, WhatIf

_UNITS_CAP, _CRAWL_CAP = "pull_units", "crawl"

_MAX_DIFFERENCES, _MAX_NAMES = 20, 5

_DEPTH_NAMES = ("NOT", "SHALLOW", "DEEP")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSide:
    """What one of two plans comes to."""

    totals: PlanTotals
    quote: Quote


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReplayReport:
    """A kept plan, made again."""

    tenant: TenantId
    saved: SavedPlan
    differences: tuple[DecisionDiff, ...]  # from what was kept, with nothing changed
    in_ledger: str | None  # the digest it tells of; None: it tells of no such plan
    before: PlanSide
    after: PlanSide | None = None  # None: nothing was changed
    gained: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()

    @property
    def matches_ledger(self) -> bool:
        """Whether the ledger tells of the very decisions that are kept."""
        return self.in_ledger == self.saved.record.header["digest"]


@click.command()
@click.argument("run", metavar="RUN")
@tenant_option
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
@json_option
@pass_context
def replay(
    asked: CommandContext,
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
    wanted = _parse_caps(caps)
    found = run_async(_replay_run(asked, run, tenant, caps=wanted, policy=policy))
    if as_json:
        print_json(_to_replay_json(found))
    else:
        _print_replay(found)
    return Exit.PROBLEMS if found.differences or not found.matches_ledger else Exit.OK


def _parse_caps(caps: Iterable[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for each in caps:
        name, equals, number = each.partition("=")
        if not equals or not number.isascii() or not number.isdigit() or len(number) > 15:
            raise ConfigError(f"{each[:40]!r} is no cap; write NAME=NUMBER, e.g. lusha=200")
        if name in found:
            raise ConfigError(f"the cap of {name[:40]} is given twice; keep one of the two")
        found[name] = int(number)
    return found


async def _replay_run(
    asked: CommandContext,
    run: str,
    tenant: str | None,
    *,
    caps: Mapping[str, int],
    policy: str | None,
) -> ReplayReport:
    from stoker.base.types import Depth
    from stoker.enrichment.forecast import list_vendor_needs
    from stoker.nightly.setup import PAID_VENDORS
    from stoker.pulls.saved_plans import (
        apply_what_if,
        compute_totals,
        find_gained_and_lost,
        find_ledger_digest,
        iterate_differences,
        load_plan,
        replay_plan,
        to_decisions,
    )
    from stoker.pulls.service import STEPS

    async with asked.open_app(only_to_read=True) as app:
        whose = choose_tenant(app.settings, tenant)
        vendors = [name for name in PAID_VENDORS if not app.connectors.get_off_reason(name, whose)]
        for name in caps:
            if name in PAID_VENDORS and name not in vendors:
                raise ConfigError(f"{name} is off for {whose}, so no look asks it; leave it out")
            if name not in (_UNITS_CAP, _CRAWL_CAP, *PAID_VENDORS):
                known = ", ".join((_UNITS_CAP, _CRAWL_CAP, *PAID_VENDORS))
                raise ConfigError(f"there is no cap of {name[:40]!r}; there are {known}")
        store = app.backend.tenant(whose)
        kept = await load_plan(store, run)
        told = await find_ledger_digest(store, kept.record.run)
    now, inputs = kept.record.at, kept.inputs
    plan = replay_plan(inputs, now=now)
    decided = to_decisions(plan)
    differs = tuple(iterate_differences(kept.decisions, decided))
    as_it_was = compute_totals(plan)
    needs = list_vendor_needs(set(vendors), steps=STEPS)
    before = PlanSide(totals=as_it_was, quote=_build_quote(as_it_was, needs))
    if not caps and policy is None:
        return ReplayReport(
            tenant=whose, saved=kept, differences=differs, in_ledger=told, before=before
        )
    what_if = _build_what_if(caps, policy)
    other = apply_what_if(inputs, what_if, needs=needs[Depth.DEEP])
    changed = replay_plan(other, now=now)
    comes_to = compute_totals(changed)
    gained, lost = find_gained_and_lost(decided, to_decisions(changed))
    return ReplayReport(
        tenant=whose,
        saved=kept,
        differences=differs,
        in_ledger=told,
        before=before,
        after=PlanSide(totals=comes_to, quote=_build_quote(comes_to, needs)),
        gained=tuple(gained),
        lost=tuple(lost),
    )


def _build_what_if(caps: Mapping[str, int], policy: str | None) -> WhatIf:
    from stoker.pulls.saved_plans import WhatIf
    from stoker.pulls.settings import Policy

    return WhatIf(
        units=caps.get(_UNITS_CAP),
        connector_units=caps.get(_CRAWL_CAP),
        policy=None if policy is None else Policy(policy),
        calls={name: calls for name, calls in caps.items() if name not in (_UNITS_CAP, _CRAWL_CAP)},
    )


def _build_quote(looks: PlanTotals, needs: Mapping[Depth, Sequence[VendorNeed]]) -> Quote:
    from stoker.base.types import Depth
    from stoker.enrichment.forecast import compute_quote

    many = {Depth.SHALLOW: looks.looks - looks.deep, Depth.DEEP: looks.deep}
    return compute_quote(many, needs, {}, at_once=1)


def _print_replay(found: ReplayReport) -> None:
    record, same = found.saved.record, not found.differences
    print_text(
        f"{found.tenant}, run {record.run}: {len(found.saved.inputs.ids)} accounts planned again "
        "by "
        f"policy {record.policy}, as of {record.at:%Y-%m-%d %H:%M} UTC: "
        + ("the same decisions, byte for byte" if same else f"{len(found.differences)} differ")
    )
    if not found.matches_ledger:
        tells = "other decisions" if found.in_ledger else "no such plan"
        print_text(f"  The ledger tells of {tells}; see it with: stoker ledger list --kind plan")
    if found.differences:
        print_table(
            ["account", "kept", "now", "depth kept", "depth now"],
            [
                (
                    each.account,
                    each.before.name,
                    each.after.name,
                    _DEPTH_NAMES[each.depth_before],
                    _DEPTH_NAMES[each.depth_after],
                )
                for each in islice(found.differences, _MAX_DIFFERENCES)
            ],
        )
    if found.after is None:
        return
    print_table(["what", "as it was", "changed", "difference"], _to_rows(found.before, found.after))
    for word, accounts in (("more", found.gained), ("fewer", found.lost)):
        if accounts:
            named = ", ".join(accounts[:_MAX_NAMES]) + (", …" if len(accounts) > _MAX_NAMES else "")
            print_text(f"  {len(accounts)} accounts {word}: {named}")
    print_text("  Nothing was kept, promised or asked for.")


def _to_rows(before: PlanSide, after: PlanSide) -> list[tuple[str, str, str, str]]:
    one, other = before.totals, after.totals
    rows = [
        ("accounts looked at", *_format_numbers(one.looks, other.looks)),
        ("of them deep", *_format_numbers(one.deep, other.deep)),
        ("pull units", *_format_numbers(one.units, other.units)),
    ]
    costs = sorted({*before.quote.cost, *after.quote.cost})
    rows += [
        (name, *_format_numbers(before.quote.cost.get(name, 0), after.quote.cost.get(name, 0)))
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


def _format_numbers(one: int, other: int) -> tuple[str, str, str]:
    return f"{one:,}", f"{other:,}", f"{other - one:+,}"


def _to_replay_json(found: ReplayReport) -> Json:
    record = found.saved.record
    return {
        "tenant": found.tenant,
        "run": record.run,
        "at": record.at.isoformat(),
        "policy": record.policy,
        "accounts": len(found.saved.inputs.ids),
        "digest": record.header["digest"],
        "same": not found.differences,
        "ledger_agrees": found.matches_ledger,
        "differs": [
            {
                "account": each.account,
                "kept": each.before.name,
                "now": each.after.name,
                "depth_kept": _DEPTH_NAMES[each.depth_before],
                "depth_now": _DEPTH_NAMES[each.depth_after],
            }
            for each in found.differences
        ],
        "as_it_was": _to_side_json(found.before),
        "changed": None if found.after is None else _to_side_json(found.after),
        "gained": list(found.gained),
        "lost": list(found.lost),
    }


def _to_side_json(side: PlanSide) -> Json:
    outcome, takes = side.totals, side.quote
    return {
        "accounts": outcome.looks,
        "deep": outcome.deep,
        "units": outcome.units,
        "price": outcome.price,
        "freshness": outcome.freshness,
        "calls": dict(takes.calls),
        "cost": dict(takes.cost),
    }
