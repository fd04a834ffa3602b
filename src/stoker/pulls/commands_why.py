"""`stoker why`: what happened to one company, in sentences, with the numbers behind them.

Its last look, its score, and what the newest plan of pulls decided about it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from stoker.base.errors import ConfigError
from stoker.base.jsontools import object_in, text_in
from stoker.cli.options import known_id, one_tenant
from stoker.cli.output import pass_asked, run_async, say, show_json, show_table, takes_json

if TYPE_CHECKING:
    from stoker.accounts.icp import Fit
    from stoker.accounts.model import Company, Dossier
    from stoker.app import App
    from stoker.base.types import Json, TenantId
    from stoker.cli.output import Asked
    from stoker.context import Store
    from stoker.enrichment.model import Unit
    from stoker.pulls.why_planned import Pulled
    from stoker.pulls.why_unfinished import Left
    from stoker.vendors.model import Kept

_MATCHES = 5

_PAGE = 1000

_ENDED = {
    "waiting": "is waiting for its turn",
    "taken": "is being worked on",
    "done": "was looked at, and nothing was left out",
    "degraded": "was looked at, but something was left out",
    "poisoned": "could not be worked on",
    "shed": "was left out so that more valuable ones were done in time",
    "unknown": "was looked at, but an answer that may have been paid for was lost",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """Everything that is known about one company's latest night."""

    tenant: TenantId
    dossier: Dossier
    run: str
    unit: Unit | None
    fit: Fit | None  # None: the tenant has no rule
    least: float
    corpus: Kept | None = None  # what its pages said, where that is kept
    pulled: Pulled | None = None  # None: no plan of pulls is kept
    left: Left | None = None  # None: its run came to its end with it

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
@takes_json
@pass_asked
def why(asked: Asked, which: str, flip: bool, as_json: bool) -> None:
    """Say what happened to one company: why it was chosen, each step, cost, refusals, its score.

    COMPANY is its number in the register, or a part of its name. TENANT may be left out when there
    is only one.
    """
    story = run_async(_story(asked, which, flip=flip))
    if as_json:
        show_json(_json(story))
    else:
        _show(story)


async def _story(asked: Asked, which: str, *, flip: bool) -> Story:
    from stoker.accounts.icp import fit
    from stoker.crawl.page_text import corpus_key
    from stoker.pulls.why_planned import pulled
    from stoker.pulls.why_unfinished import left

    whose, slash, wanted = which.partition("/")
    if not slash:
        whose, wanted = "", which
    async with asked.app(only_to_read=True) as app:
        if not whose and app.settings.default_tenant() is None:
            names = ", ".join(each.id for each in app.settings.tenants)
            raise ConfigError(f"say whose: stoker why TENANT/{which[:40]} (one of {names})")
        tenant = one_tenant(app.settings, known_id(whose) if whose else None)
        store, own = app.backend.tenant(tenant), app.settings.for_tenant(tenant)
        dossier = await _found(app, store, wanted.strip())
        rule = await store.accounts.rule(own.icp.rule_name)
        seen = await store.nights.last_look(dossier.company.id)
        key = corpus_key(dossier.company.id)
        kept = await store.answers.answers([key])
        decided = await pulled(store, dossier.company, flip=flip)
        run, unit = seen or ("", None)
        undone = await left(store, run, unit) if unit is not None else None
    return Story(
        tenant=tenant,
        dossier=dossier,
        run=run,
        unit=unit,
        fit=fit(dossier.company, rule) if rule else None,
        least=own.score.min_export,
        corpus=kept.get(key),
        pulled=decided,
        left=undone,
    )


async def _found(app: App, store: Store, wanted: str) -> Dossier:
    from stoker.accounts.model import CompanyId

    if not wanted:
        raise ConfigError("say which company: stoker why TENANT/COMPANY")
    if found := await store.accounts.dossier(CompanyId(wanted.upper())):
        return found
    matches: list[Company] = []
    after, words = "", wanted.casefold()
    while len(matches) <= _MATCHES and (
        page := await store.accounts.companies(after=after, limit=_PAGE)
    ):
        after = page[-1].id
        matches += [each for each in page if words in each.name.casefold()]
    if len(matches) > 1:
        named = ", ".join(f"{each.id} ({each.name})" for each in matches[:_MATCHES])
        raise ConfigError(f"{wanted!r} could be any of {named}; give its number")
    if matches and (found := await store.accounts.dossier(matches[0].id)):
        return found
    registered = await app.backend.registry().entity(wanted.upper())
    if registered is not None:
        raise ConfigError(
            f"{registered.name} is in the register, but {store.tenant} has not taken it over yet; "
            "its next night does, with: stoker nightly"
        )
    raise ConfigError(
        f"{store.tenant} knows no company {wanted[:60]!r}; give a number of the register or a part "
        "of a name, e.g. from: stoker leads"
    )


def _show(story: Story) -> None:
    company, unit = story.company, story.unit
    say(f"{company.name} ({company.id}), for {story.tenant}")
    say(f"  {company.website or 'its site is not known'}")
    if story.fit is not None:
        say(f"\nDoes it fit? {'Yes' if story.fit.fits else 'No'}: {story.fit.because}.")
    if unit is None:
        say("\nNo night has looked at it yet." + _not_chosen(story))
    else:
        _show_unit(story, unit)
    if story.pulled is not None:
        from stoker.pulls.why_planned import show_pulled

        show_pulled(story.pulled)
    _show_known(story)


def _not_chosen(story: Story) -> str:
    if story.fit is None:
        return f" {story.tenant} has no rule; set one with: stoker icp set --tenant {story.tenant}"
    if not story.fit.fits:
        return " It does not fit the rule, so none will."
    return " Others came before it; see the order with: stoker nightly --dry-run"


def _show_unit(story: Story, unit: Unit) -> None:
    from stoker.base.types import Step
    from stoker.nightly.report import by_connector
    from stoker.pulls.why_unfinished import because, show_spent, show_what_to_do

    run, left = story.run, story.left
    say(f"\nRun {run} had it at place {unit.place + 1}, {unit.depth.lower()}: {unit.because}.")
    say(f"It {(left and because(left, unit)) or _ENDED[unit.state.value]}.")
    for reason in unit.reasons:
        say(f"  - {reason}")
    if left is None:
        say(f"It cost {by_connector(unit.cost) or 'nothing'}.")
    else:
        show_spent(left)
        show_what_to_do(left, story.tenant)
    if unit.saved:
        say(f"Not paid for again: {by_connector(unit.saved)}.")
    if unit.seconds:
        took = ", ".join(
            f"{step} {unit.seconds[step]:.1f} s" for step in Step if step in unit.seconds
        )
        say(f"It took {took}.")


def _show_known(story: Story) -> None:
    dossier, score = story.dossier, story.dossier.score
    if score is None:
        say("\nIt has no score yet.")
    else:
        lead = "a lead" if score.value >= story.least else f"no lead, which takes {story.least:g}"
        say(f"\nScore {score.value:.2f}, {lead}. {score.rationale}")
        show_table(
            ["feature", "value"], [(name, f"{value:.2f}") for name, value in score.features.items()]
        )
    if dossier.contacts:
        say("\nWhom to write to:")
        show_table(
            ["name", "title", "email", "verdict", "phone", "from"],
            [
                (each.name, each.title, each.email, each.verdict.value, each.phone, each.source)
                for each in dossier.contacts
            ],
        )
    if dossier.findings:
        say("\nWhat was found, and where:")
        show_table(
            ["what", "value", "sure", "how", "source"],
            [
                (each.field.value, each.value[:60], f"{each.confidence:.2f}", each.how, each.source)
                for each in dossier.findings
            ],
        )

    if story.corpus is not None:
        said = object_in(story.corpus.answer)
        say(
            f"\nWhat its pages said is kept, {len(text_in(said, 'text'))} characters from run "
            f"{text_in(said, 'run')}; read it with --json."
        )


def _json(story: Story) -> Json:
    from stoker.leads.export import lead_row

    unit, looked = story.unit, story.dossier.looked_at
    night: dict[str, Json] | None = None
    if unit is not None:
        night = {
            "run": story.run,
            "place": unit.place,
            "depth": unit.depth.value,
            "because": unit.because,
            "state": unit.state.value,
            "reasons": list(unit.reasons),
            "cost": dict(unit.cost),
            "saved": dict(unit.saved),
            "seconds": dict(unit.seconds),
        }
    if night is not None and unit is not None and story.left is not None:
        from stoker.pulls.why_unfinished import left_json

        night |= left_json(story.left, unit)
    known = lead_row(story.tenant, story.dossier) | {
        "looked_at": looked.isoformat() if looked else None
    }
    fits: Json = None
    if story.fit is not None:
        fits = {"fits": story.fit.fits, "because": story.fit.because}
    said = story.corpus.answer if story.corpus is not None else None
    pull: Json = None
    if story.pulled is not None:
        from stoker.pulls.why_planned import pulled_json

        pull = pulled_json(story.pulled)
    return {**known, "fit": fits, "night": night, "pull": pull, "corpus": said}  # type: ignore[dict-item]  # no date is left
