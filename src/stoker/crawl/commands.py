"""`stoker crawl`: visit one site now, politely, and show what was found and why it ended.

What is remembered of the site's pages goes into the tenant's store, so that the next visit asks
only for what changed. Sites are free of charge; a look counts pull units, through the gate.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import click

from stoker.base.errors import TransientError
from stoker.cli.options import aliased_option, choose_active_tenant, sandbox_option, tenant_option
from stoker.cli.output import (
    Exit,
    async_command,
    json_option,
    pass_context,
    print_json,
    print_table,
    print_text,
)
from stoker.crawl.model import VisitOutcome

if TYPE_CHECKING:
    from stoker.base.types import Json
    from stoker.cli.output import CommandContext
    from stoker.crawl.model import SiteVisit

_SUCCESSES = (VisitOutcome.READ, VisitOutcome.UNCHANGED, VisitOutcome.THIN)


@click.command()
@click.argument("url")
@click.option(
    "--max-pages",
    type=click.IntRange(1, 1000),
    help="Read at most this many pages. Default: crawl.max_pages.",
)
@aliased_option(
    "--full",
    is_flag=True,
    aliases=["--again"],
    help="Read also pages that have not changed.",
)
@sandbox_option
@tenant_option
@json_option
@pass_context
@async_command
async def crawl(
    asked: CommandContext,
    url: str,
    max_pages: int | None,
    full: bool,
    sandbox: str | None,
    tenant: str | None,
    as_json: bool,
) -> Exit:
    """Visit a website now and show its key pages and contacts.

    Obeys robots.txt and host delays, and costs one shallow lookup. Exit code 1 when the site is
    gone, blocked or failed, 6 when a cap or a stop refuses the lookup.
    """
    from stoker.budgets.charges import Refusal
    from stoker.budgets.service import build_budget
    from stoker.crawl.key_pages import parse_site
    from stoker.crawl.service import build_crawl_connector, visit_site
    from stoker.rate_limits.limiter import build_call_limiter

    async with asked.use_sandbox(sandbox).open_app() as app:
        whose, site = choose_active_tenant(app.settings, tenant), parse_site(url)
        crawler = build_crawl_connector(app.for_tenant(whose), max_pages=max_pages)
        visit = await visit_site(
            url,
            site=site,
            crawler=crawler,
            pages=app.backend.tenant(whose).pages,
            gate=await app.for_tenant(whose).open(build_budget),
            slot=app.for_tenant(whose).get(build_call_limiter).acquire_slot(crawler.name),
            unlike_others=secrets.token_hex(8),
            again=full,
        )
    if isinstance(visit, Refusal):
        raise TransientError(f"{visit.message}; {site} was not visited")
    if as_json:
        print_json(_visit_to_json(visit))
    else:
        _print_visit(visit)
    return Exit.OK if visit.outcome in _SUCCESSES else Exit.PROBLEMS


def _print_visit(visit: SiteVisit) -> None:
    print_text(f"{visit.site}: {visit.outcome} – {visit.reason}")
    requests = "1 request" if visit.requests == 1 else f"{visit.requests} requests"
    print_text(
        f"{requests}, {visit.bytes:,} bytes, {visit.not_modified} not modified"
        + (f", limits reached: {', '.join(visit.limits_hit)}" if visit.limits_hit else "")
    )
    if visit.pages:
        print_text()
        print_table(
            ("kind", "letters", "title", "url"),
            [(page.kind, len(page.text), page.title[:60], page.url) for page in visit.pages],
        )
    if visit.facts:
        print_text()
        print_table(
            ("found", "value", "how", "sure", "source"),
            [
                (each.field, each.value, each.method, f"{each.confidence:.2f}", each.source)
                for each in visit.facts
            ],
        )


def _visit_to_json(visit: SiteVisit) -> Json:
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
                "how": each.method,
                "confidence": each.confidence,
                "evidence": each.evidence,
            }
            for each in visit.facts
        ],
    }
