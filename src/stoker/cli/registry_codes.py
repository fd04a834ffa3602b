"""`stoker registry ssic`: classifications of industries, read from files people have."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from stoker.cli.output import (
    Asked,
    complain,
    pass_asked,
    run_async,
    say,
    show_json,
    show_table,
    takes_json,
)
from stoker.core.ssic import VERSIONS

if TYPE_CHECKING:
    from stoker.core.entities import IndustryCode

_MOST_COMPLAINTS = 10
_VERSION = click.option(
    "--version",
    type=click.Choice(VERSIONS),
    default=VERSIONS[0],
    show_default=True,
    help="The edition of the classification.",
)


@click.group()
def ssic() -> None:
    """Read classifications of industries, and see which codes a word means."""


@ssic.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@_VERSION
@takes_json
@pass_asked
def import_codes(asked: Asked, file: Path, version: str, as_json: bool) -> None:
    """Read a CSV FILE with a column for codes and one for titles, in place of what was there."""
    from stoker.connectors.ssic_files import industry_codes

    read = industry_codes(asked.directory / file, version=version)
    run_async(_kept(asked, version, read.codes))
    for line, because in read.refused[:_MOST_COMPLAINTS]:
        complain(f"line {line} was left out: {because}")
    if as_json:
        show_json({"version": version, "codes": len(read.codes), "left_out": len(read.refused)})
    else:
        say(f"{len(read.codes):,} codes of {version} are in, {len(read.refused)} rows left out")


@ssic.command("show")
@click.argument("industry")
@_VERSION
@takes_json
@pass_asked
def show_codes(asked: Asked, industry: str, version: str, as_json: bool) -> None:
    """Show which codes INDUSTRY means: digits, a section's letter, or a word such as technology."""
    from stoker.core.ssic import falls_under, prefixes

    begins = prefixes(industry, version=version)
    known = [each for each in run_async(_known(asked, version)) if falls_under(each.code, begins)]
    if as_json:
        codes = [{"code": e.code, "title": e.title, "level": e.level} for e in known]
        show_json({"industry": industry, "begins": list(begins), "codes": codes})
        return
    say(f"{industry}: codes that begin with {', '.join(begins)}")
    empty = f"no titles of {version} are here; read them with: stoker registry ssic import FILE"
    show_table(("code", "level", "title"), [(e.code, e.level, e.title) for e in known], empty=empty)


async def _kept(asked: Asked, version: str, codes: list[IndustryCode]) -> None:
    async with asked.app() as app:
        await app.backend.registry().load_codes(version, codes)


async def _known(asked: Asked, version: str) -> list[IndustryCode]:
    async with asked.app(only_to_read=True) as app:
        return await app.backend.registry().codes(version)
