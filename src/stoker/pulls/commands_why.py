"""`stoker why`: what happened to one company, in sentences, with the numbers behind them.

Its last look, its score, and what the newest plan of pulls decided about it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from stoker.base.errors import ConfigError
from stoker.base.jsontools import get_line, get_object
from stoker.cli.options import choose_tenant, parse_tenant_argument
from stoker.cli.output import (
    json_option,
    pass_context,
    print_json,
    print_table,
    print_text,
    run_async,
)

if TYPE_CHECKING:
    from stoker.accounts.icp import IcpMatch
    from stoker.accounts.model import Company, CompanyRecord
    from stoker.app import App
    from stoker.base.types import Json, TenantId
    from stoker.cli.output import CommandContext
    from stoker.context import TenantStores
    from stoker.enrichment.model import WorkItem
    from stoker.pulls.why_planned import PullReport
    from stoker.pulls.why_unfinished import UnfinishedReport
    from stoker.vendors.model import CachedAnswer

_MAX_MATCHES = 5

_PAGE_SIZE = 1000

_STATE_TEXTS = {
    "waiting": "is waiting for its turn",
    "taken": "is being worked on",
    "done": "was looked at, and nothing was left out",
    "degraded": "was looked at, but something was left out",
    "poisoned": "could not be worked on",
    "shed": "was left out so that more valuable ones were done in time",
    "unknown": "was looked at, but an answer that may have been paid for was lost",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CompanyReport:
    """Everything that is known about one company's latest night."""

    tenant: TenantId
    dossier: CompanyRecord
    run: str
    unit: WorkItem | None
    fit: IcpMatch | None  # None: the tenant has no rule
    least: float
    corpus: CachedAnswer | None = None  # what its pages said, where that is kept
    pull_report: PullReport | None = None  # None: no plan of pulls is kept
    unfinished: UnfinishedReport | None = None  # None: its run came to its end with it

    @property
    def company(self) -> Company:
        """Whom it is about."""
        return self.dossier.company


@click.command()
@click.argument("which", metavar="[TENANT/]COMPANY")
@click.option(
    "--flip",
    is_flag=True,
    help="Say what would have had it looked at by the last plan of pulls: units, posture or time.",
)
@json_option
@pass_context
def why(asked: CommandContext, which: str, flip: bool, as_json: bool) -> None:
    """Say what happened to one company: why it was chosen, each step, cost, refusals, its score.

    COMPANY is its number in the register, or a part of its name. TENANT may be left out when there
    is only one.
    """
    story = run_async(_read_company_report(asked, which, flip=flip))
    if as_json:
        print_json(_to_report_json(story))
    else:
        _print_report(story)


async def _read_company_report(asked: CommandContext, which: str, *, flip: bool) -> CompanyReport:
    from stoker.accounts.icp import match_icp
    from stoker.crawl.page_text import build_corpus_key
    from stoker.pulls.why_planned import find_pull_report
    from stoker.pulls.why_unfinished import find_unfinished

    whose, slash, wanted = which.partition("/")
    if not slash:
        whose, wanted = "", which
    async with asked.open_app(only_to_read=True) as app:
        if not whose and app.settings.find_default_tenant() is None:
            names = ", ".join(each.id for each in app.settings.tenants)
            raise ConfigError(f"say whose: stoker why TENANT/{which[:40]} (one of {names})")
        tenant = choose_tenant(app.settings, parse_tenant_argument(whose) if whose else None)
        store, own = app.backend.tenant(tenant), app.settings.for_tenant(tenant)
        dossier = await _find_company(app, store, wanted.strip())
        rule = await store.accounts.find_rule(own.icp.rule_name)
        last_items = await store.nights.find_last_items([dossier.company.id])
        key = build_corpus_key(dossier.company.id)
        kept = await store.answers.find_answers([key])
        decided = await find_pull_report(store, dossier.company, flip=flip)
        run, unit = last_items.get(dossier.company.id, ("", None))
        undone = await find_unfinished(store, run, unit) if unit is not None else None
    return CompanyReport(
        tenant=tenant,
        dossier=dossier,
        run=run,
        unit=unit,
        fit=match_icp(dossier.company, rule) if rule else None,
        least=own.score.min_export,
        corpus=kept.get(key),
        pull_report=decided,
        unfinished=undone,
    )


async def _find_company(app: App, store: TenantStores, wanted: str) -> CompanyRecord:
    from stoker.accounts.model import CompanyId

    if not wanted:
        raise ConfigError("say which company: stoker why TENANT/COMPANY")
    if found := await store.accounts.find_company_record(CompanyId(wanted.upper())):
        return found
    matches: list[Company] = []
    after, words = "", wanted.casefold()
    while len(matches) <= _MAX_MATCHES and (
        page := await store.accounts.list_companies(after=after, limit=_PAGE_SIZE)
    ):
        after = page[-1].id
        matches += [each for each in page if words in each.name.casefold()]
    if len(matches) > 1:
        named = ", ".join(f"{each.id} ({each.name})" for each in matches[:_MAX_MATCHES])
        raise ConfigError(f"{wanted!r} could be any of {named}; give its number")
    if matches and (found := await store.accounts.find_company_record(matches[0].id)):
        return found
    registered = await app.backend.registry().find_entity(wanted.upper())
    if registered is not None:
        raise ConfigError(
            f"{registered.name} is in the register, but {store.tenant} has not taken it over yet; "
            "its next night does, with: stoker nightly"
        )
    raise ConfigError(
        f"{store.tenant} knows no company {wanted[:60]!r}; give a number of the register or a part "
        "of a name, e.g. from: stoker leads"
    )


def _print_report(story: CompanyReport) -> None:
    company, unit = story.company, story.unit
    print_text(f"{company.name} ({company.id}), for {story.tenant}")
    print_text(f"  {company.website or 'its site is not known'}")
    if story.fit is not None:
        print_text(f"\nDoes it fit? {'Yes' if story.fit.fits else 'No'}: {story.fit.reason}.")
    if unit is None:
        print_text("\nNo night has looked at it yet." + _format_not_chosen(story))
    else:
        _print_work_item(story, unit)
    if story.pull_report is not None:
        from stoker.pulls.why_planned import print_pull_report

        print_pull_report(story.pull_report)
    _print_facts(story)


def _format_not_chosen(story: CompanyReport) -> str:
    if story.fit is None:
        return f" {story.tenant} has no rule; set one with: stoker icp set --tenant {story.tenant}"
    if not story.fit.fits:
        return " It does not fit the rule, so none will."
    return " Others came before it; see the order with: stoker nightly --dry-run"


def _print_work_item(story: CompanyReport, unit: WorkItem) -> None:
    from stoker.base.types import Step
    from stoker.nightly.report import format_cost
    from stoker.pulls.why_unfinished import format_cause, print_next_steps, print_spent

    run, left = story.run, story.unfinished
    print_text(f"\nRun {run} had it at place {unit.rank + 1}, {unit.depth.lower()}: {unit.reason}.")
    print_text(f"It {(left and format_cause(left, unit)) or _STATE_TEXTS[unit.state.value]}.")
    for reason in unit.reasons:
        print_text(f"  - {reason}")
    if left is None:
        print_text(f"It cost {format_cost(unit.cost) or 'nothing'}.")
    else:
        print_spent(left)
        print_next_steps(left, story.tenant)
    if unit.saved:
        print_text(f"Not paid for again: {format_cost(unit.saved)}.")
    if unit.seconds:
        took = ", ".join(
            f"{step} {unit.seconds[step]:.1f} s" for step in Step if step in unit.seconds
        )
        print_text(f"It took {took}.")


def _print_facts(story: CompanyReport) -> None:
    dossier, score = story.dossier, story.dossier.score
    if score is None:
        print_text("\nIt has no score yet.")
    else:
        lead = "a lead" if score.value >= story.least else f"no lead, which takes {story.least:g}"
        print_text(f"\nScore {score.value:.2f}, {lead}. {score.rationale}")
        print_table(
            ["feature", "value"], [(name, f"{value:.2f}") for name, value in score.features.items()]
        )
    if dossier.contacts:
        print_text("\nWhom to write to:")
        print_table(
            ["name", "title", "email", "verdict", "phone", "from"],
            [
                (each.name, each.title, each.email, each.verdict.value, each.phone, each.source)
                for each in dossier.contacts
            ],
        )
    if dossier.facts:
        print_text("\nWhat was found, and where:")
        print_table(
            ["what", "value", "sure", "how", "source"],
            [
                (
                    each.field.value,
                    each.value[:60],
                    f"{each.confidence:.2f}",
                    each.method,
                    each.source,
                )
                for each in dossier.facts
            ],
        )

    if story.corpus is not None:
        said = get_object(story.corpus.answer)
        print_text(
            f"\nWhat its pages said is kept, {len(get_line(said, 'text'))} characters from run "
            f"{get_line(said, 'run')}; read it with --json."
        )


def _to_report_json(story: CompanyReport) -> Json:
    from stoker.leads.export import to_lead_row

    unit, looked = story.unit, story.dossier.looked_at
    night: dict[str, Json] | None = None
    if unit is not None:
        night = {
            "run": story.run,
            "place": unit.rank,
            "depth": unit.depth.value,
            "because": unit.reason,
            "state": unit.state.value,
            "reasons": list(unit.reasons),
            "cost": dict(unit.cost),
            "saved": dict(unit.saved),
            "seconds": dict(unit.seconds),
        }
    if night is not None and unit is not None and story.unfinished is not None:
        from stoker.pulls.why_unfinished import to_unfinished_json

        night |= to_unfinished_json(story.unfinished, unit)
    known = to_lead_row(story.tenant, story.dossier) | {
        "looked_at": looked.isoformat() if looked else None
    }
    fits: Json = None
    if story.fit is not None:
        fits = {"fits": story.fit.fits, "because": story.fit.reason}
    said = story.corpus.answer if story.corpus is not None else None
    pull: Json = None
    if story.pull_report is not None:
        from stoker.pulls.why_planned import to_pull_report_json

        pull = to_pull_report_json(story.pull_report)
    return {**known, "fit": fits, "night": night, "pull": pull, "corpus": said}  # type: ignore[dict-item]  # no date is left
