"""`stoker crawl`: visit one site now, politely, and show what was found and why it ended.

What is remembered of the site's pages goes into the tenant's store, so that the next visit asks
only for what changed. Sites are free of charge; a look counts pull units, through the gate.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import click

from stoker.base.errors import TransientError
from stoker.cli.options import takes_tenant, working_tenant
from stoker.cli.output import Exit, pass_asked, run_async, say, show_json, show_table, takes_json
from stoker.crawl.model import Outcome

if TYPE_CHECKING:
    from stoker.base.types import Json
    from stoker.cli.output import Asked
    from stoker.crawl.model import SiteVisit

_GOOD = (Outcome.READ, Outcome.UNCHANGED, Outcome.THIN)


@click.command()
@click.argument("url")
@click.option(
    "--max-pages", type=click.IntRange(1, 1000), help="Pages read at most. Default: the setting."
)
@click.option("--again", is_flag=True, help="Read everything, also what is known not to change.")
@click.option(
    "--sandbox",
    metavar="HOST:PORT",
    help="Where names ending in .test lead. Default: sandbox.address.",
)
@takes_tenant
@takes_json
@pass_asked
def crawl(
    asked: Asked,
    url: str,
    max_pages: int | None,
    again: bool,
    sandbox: str | None,
    tenant: str | None,
    as_json: bool,
) -> Exit:
    """Visit the site at URL (or at a host's name) and show its key pages and contacts.

    robots.txt is obeyed and requests keep their distance. It counts as one shallow look. Exit
    code 1 when the site is gone, blocked or failed, 6 when a cap or a stop does not allow a look.
    """
    visit = run_async(_visited(asked.on_sandbox(sandbox), url, max_pages, again, tenant))
    if as_json:
        show_json(_json(visit))
    else:
        _show(visit)
    return Exit.OK if visit.outcome in _GOOD else Exit.PROBLEMS


async def _visited(
    asked: Asked, url: str, max_pages: int | None, again: bool, tenant: str | None
) -> SiteVisit:
    from stoker.budgets.charges import Refused
    from stoker.crawl.service import look_at
    from stoker.crawl.visit import site_named

    async with asked.app() as app:
        whose, site = working_tenant(app.settings, tenant), site_named(url)
        crawler = app.connectors.crawl(whose, max_pages=max_pages)
        visit = await look_at(
            url,
            site=site,
            crawler=crawler,
            pages=app.backend.tenant(whose).pages,
            gate=await app.gate(whose),
            passage=app.passages(whose).through(crawler.name),
            unlike_others=secrets.token_hex(8),
            again=again,
        )
    if isinstance(visit, Refused):
        raise TransientError(f"{visit.sentence}; {site} was not visited")
    return visit


def _show(visit: SiteVisit) -> None:
    say(f"{visit.site}: {visit.outcome} – {visit.reason}")
    requests = "1 request" if visit.requests == 1 else f"{visit.requests} requests"
    say(
        f"{requests}, {visit.bytes:,} bytes, {visit.not_modified} not modified"
        + (f", limits reached: {', '.join(visit.limits_hit)}" if visit.limits_hit else "")
    )
    if visit.pages:
        say()
        show_table(
            ("kind", "letters", "title", "url"),
            [(page.kind, len(page.text), page.title[:60], page.url) for page in visit.pages],
        )
    if visit.findings:
        say()
        show_table(
            ("found", "value", "how", "sure", "source"),
            [
                (each.field, each.value, each.how, f"{each.confidence:.2f}", each.source)
                for each in visit.findings
            ],
        )


def _json(visit: SiteVisit) -> Json:
    return {
        "site": visit.site,
        "outcome": visit.outcome,
        "reason": visit.reason,
        "requests": visit.requests,
        "bytes": visit.bytes,
        "not_modified": visit.not_modified,
        "limits_hit": list(visit.limits_hit),
        "pages": [
            {
                "url": page.url,
                "kind": page.kind,
                "title": page.title,
                "letters": len(page.text),
                "changed_at": page.seen.changed_at.isoformat(),
            }
            for page in visit.pages
        ],
        "findings": [
            {
                "field": each.field,
                "value": each.value,
                "source": each.source,
                "how": each.how,
                "confidence": each.confidence,
                "evidence": each.evidence,
            }
            for each in visit.findings
        ],
    }
