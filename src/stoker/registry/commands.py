"""`stoker registry`: what is in the register of companies, how it came there, what did not.

Looking changes nothing and makes nothing. Reading files is `registry_import`'s, classifications
of industries are `registry_codes`'.

`stoker registry ssic`: classifications of industries, read from files people have.

`stoker registry import`: what can be asked for, and how it is told what came of it.

How files come here and are read is `registry_reading`'s.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from stoker.base.errors import ConfigError
from stoker.cli.output import (
    Exit,
    complain,
    pass_asked,
    run_async,
    say,
    show_json,
    show_table,
    takes_json,
)
from stoker.config.sandbox import ORIGIN
from stoker.registry.ssic import VERSIONS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stoker.base.types import Json
    from stoker.cli.output import Asked
    from stoker.registry.importing import Outcome, Wanted
    from stoker.registry.load import Registered
    from stoker.registry.model import Entity, IndustryCode, Load, Reject

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
    from stoker.registry.files import industry_codes

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
    from stoker.registry.ssic import falls_under, prefixes

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


@click.command("import")
@click.argument("files", nargs=-1, metavar="[FILE]...")
@click.option("--download", is_flag=True, help="Take the newest files from data.gov.sg.")
@click.option("--letters", metavar="A,B,…", help="Download only these: A to Z, Others.")
@click.option(
    "--release", metavar="DATE", help="The release the files are of. Default: the date in a name."
)
@click.option("--part", metavar="LETTER", help="The part of the register the file is: A to Others.")
@click.option("--again", is_flag=True, help="Read also what was read to its end before.")
@click.option("--force", is_flag=True, help="Read also an older release, or half a part.")
@click.option(
    "--sandbox",
    metavar="HOST:PORT",
    help="Where names ending in .test lead. Default: sandbox.address.",
)
@takes_json
@pass_asked
def import_files(
    asked: Asked,
    files: tuple[str, ...],
    download: bool,
    letters: str | None,
    release: str | None,
    part: str | None,
    again: bool,
    force: bool,
    sandbox: str | None,
    as_json: bool,
) -> Exit:
    """Read FILEs of the register: CSV, .gz or .zip, a path, an address, or - for stdin.

    The same file again changes nothing. Rows that cannot be read are kept with the reason: see
    `stoker registry rejects`. Exit code 4 when a file was refused; the others are read.
    """
    from stoker.registry.importing import Outcome, Wanted
    from stoker.registry.releases import known_part, release_of

    if bool(files) == download:
        raise ConfigError("give files to read, or --download to get them from data.gov.sg")
    if part is not None and (len(files) != 1 or known_part(part) is None):
        raise ConfigError("--part is for one file: a letter from A to Z, or Others")
    if download and release is not None:
        raise ConfigError("--release is for files; what is downloaded says its release itself")
    if letters is not None and not download:
        raise ConfigError("--letters goes with --download; files are named one by one")
    wanted = Wanted(
        release=None if release is None else release_of(release),
        part=None if part is None else known_part(part),
        again=again,
        force=force,
    )
    outcome = Outcome()
    try:
        run_async(_done(asked.on_sandbox(sandbox), files, _parts(letters), wanted, outcome))
    finally:
        # Also after an error: files before it are in, and stay in.
        _report(outcome, as_json=as_json)
    if sandbox is not None and outcome.read and not as_json:
        _say_apart(asked.on_sandbox(sandbox))
    return Exit.FAILED if outcome.refused else Exit.OK


async def _done(
    asked: Asked, files: tuple[str, ...], parts: list[str], wanted: Wanted, outcome: Outcome
) -> None:
    from stoker.registry.importing import read_files, read_published

    async with asked.app() as app:
        if files:
            await read_files(app, files, wanted, outcome, directory=asked.directory)
        else:
            await read_published(app, parts, wanted, outcome)


def _parts(letters: str | None) -> list[str]:
    from stoker.registry.releases import known_part

    if letters is None:
        return []
    parts = [known_part(each) for each in letters.split(",")]
    if None in parts:
        raise ConfigError(
            f"{letters[:60]!r} has what is no part; say A to Z, or Others: A,B,Others"
        )
    return [part for part in dict.fromkeys(parts) if part is not None]


def _report(outcome: Outcome, *, as_json: bool) -> None:
    if as_json:
        refused: list[Json] = [dict(each) for each in outcome.refused]
        show_json({"files": [_json(each) for each in outcome.read], "refused": refused})
        return
    for each in outcome.read:
        load, count = each.load, each.load.count
        if each.before:
            say(f"{load.source}: read before, on {load.ended_at:%Y-%m-%d}; nothing to do")
            continue
        say(
            f"{load.source}: {count.read:,} rows of {load.release} in "
            f"{each.took.total_seconds():.1f} s – {count.new:,} new, {count.changed:,} changed, "
            f"{count.same:,} the same, {count.rejected:,} rejected, {count.gone:,} gone"
        )
        for doubt, many in each.doubts.items():
            say(f"  {many:,} rows kept with a {doubt}")
    if any(each.load.count.rejected for each in outcome.read):
        say("why rows were rejected: stoker registry rejects")


def _say_apart(asked: Asked) -> None:
    settings = asked.settings()
    if settings.origin("storage.sqlite_path") == ORIGIN:
        address = settings.sandbox.address
        say(f"a rehearsal, kept apart; to see it: stoker --set sandbox.address={address} …")


def _json(each: Registered) -> Json:

    return {
        **load_json(each.load),
        "before": each.before,
        "seconds": each.took.total_seconds(),
        "doubts": dict(each.doubts),
    }


_WORDS = ("state", "status", "kind", "division")

_TITLE_VERSIONS = ("2020", "2025")  # the register still speaks the older edition; it comes first


@click.group()
def registry() -> None:
    """Read, download and look at the register of companies."""


registry.add_command(import_files)

registry.add_command(ssic)


@registry.command()
@click.option(
    "--by", type=click.Choice(_WORDS), default="state", help="What entities are counted by."
)
@click.option("--loads", type=click.IntRange(0, 1000), default=10, help="Newest loads shown.")
@takes_json
@pass_asked
def status(asked: Asked, by: str, loads: int, as_json: bool) -> None:
    """Count the entities there are, and list the newest loads."""
    counts, newest = run_async(_looked(asked, by, loads))
    if as_json:
        show_json({"by": by, "counts": dict(counts), "loads": [load_json(each) for each in newest]})
        return
    if not counts and not newest:
        say("the register is empty; read it with: stoker registry import --download")
        return
    show_table((by, "entities"), [(word, f"{many:,}") for word, many in _largest(counts)])
    say()
    show_table(
        ("release", "part", "began", "ended", "new", "changed", "same", "rejected", "gone", "from"),
        [
            (
                each.release,
                each.part,
                f"{each.began_at:%Y-%m-%d %H:%M}",
                "not ended" if each.ended_at is None else f"{each.ended_at:%Y-%m-%d %H:%M}",
                each.count.new,
                each.count.changed,
                each.count.same,
                each.count.rejected,
                each.count.gone,
                each.source,
            )
            for each in newest
        ],
        empty="no loads",
    )


@registry.command()
@click.option("--after", type=click.IntRange(0), default=0, help="Begin after this number.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, help="Rows shown at most.")
@takes_json
@pass_asked
def rejects(asked: Asked, after: int, limit: int, as_json: bool) -> None:
    """List rows that could not be read, oldest first, each with the reason."""
    found = run_async(_rejected(asked, after, limit))
    if as_json:
        show_json(
            [
                {
                    "number": each.number,
                    "load": each.load,
                    "line": each.line,
                    "reason": each.reason,
                    "text": each.text,
                }
                for each in found
            ]
        )
        return
    show_table(
        ("number", "load", "line", "reason", "row"),
        [(e.number, e.load[:12], e.line, e.reason, e.text[:60]) for e in found],
        empty="no row was rejected",
    )
    if len(found) == limit:
        say(f"there may be more: --after {found[-1].number}")


@registry.command()
@click.argument("uen")
@takes_json
@pass_asked
def show(asked: Asked, uen: str, as_json: bool) -> Exit:
    """Show one entity by its number (UEN). Exit code 1 when the register has none such."""
    entity, title = run_async(_entity(asked, uen.strip().upper()))
    if as_json:
        show_json(None if entity is None else entity_json(entity, title))
    elif entity is None:
        say(f"there is no entity {uen[:40]} in the register as read; see: stoker registry status")
    else:
        _show(entity, title)
    return Exit.PROBLEMS if entity is None else Exit.OK


async def _looked(asked: Asked, by: str, loads: int) -> tuple[Mapping[str, int], list[Load]]:
    async with asked.app(only_to_read=True) as app:
        store = app.backend.registry()
        return await store.count_entities(by=by), await store.loads(limit=loads) if loads else []


async def _rejected(asked: Asked, after: int, limit: int) -> list[Reject]:
    async with asked.app(only_to_read=True) as app:
        return await app.backend.registry().rejects(after=after, limit=limit)


async def _entity(asked: Asked, uen: str) -> tuple[Entity | None, str]:
    async with asked.app(only_to_read=True) as app:
        store = app.backend.registry()
        if not uen or (entity := await store.entity(uen)) is None:
            return None, ""
        for version in _TITLE_VERSIONS:
            titles = {code.code: code.title for code in await store.codes(version)}
            if entity.ssic in titles:
                return entity, titles[entity.ssic]
        return entity, ""


def load_json(load: Load) -> dict[str, Json]:
    """Return a load as programs read it."""
    count = load.count
    return {
        "id": load.id,
        "release": load.release,
        "part": load.part,
        "source": load.source,
        "began_at": load.began_at.isoformat(),
        "ended_at": None if load.ended_at is None else load.ended_at.isoformat(),
        "rows": count.read,
        "new": count.new,
        "changed": count.changed,
        "same": count.same,
        "rejected": count.rejected,
        "gone": count.gone,
    }


def entity_json(entity: Entity, title: str) -> Json:
    """Return an entity as programs read it."""
    day, changed, gone = entity.registered_on, entity.changed_at, entity.gone_at
    return {
        "uen": entity.uen,
        "name": entity.name,
        "kind": entity.kind,
        "company_type": entity.company_type,
        "status": entity.status,
        "live": entity.live,
        "registered_on": None if day is None else day.isoformat(),
        "ssic": entity.ssic,
        "ssic_title": title,
        "ssic_secondary": entity.ssic_secondary,
        "activity": entity.activity,
        "street": entity.street,
        "postal_code": entity.postal_code,
        "officers": entity.officers,
        "former_names": list(entity.former_names),
        "changed_at": None if changed is None else changed.isoformat(),
        "gone_at": None if gone is None else gone.isoformat(),
        "raw": dict(entity.raw),
    }


def _largest(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _show(entity: Entity, title: str) -> None:
    rows = [
        ("uen", entity.uen),
        ("name", entity.name),
        ("kind", " – ".join(filter(None, (entity.kind, entity.company_type)))),
        ("status", f"{entity.status} ({'in business' if entity.live else 'not in business'})"),
        ("registered", entity.registered_on),
        ("industry", " ".join(filter(None, (entity.ssic, title)))),
        ("second industry", entity.ssic_secondary),
        ("activity", entity.activity),
        ("address", " ".join(filter(None, (entity.street, entity.postal_code)))),
        ("officers", entity.officers),
        ("former names", ", ".join(entity.former_names)),
        ("last changed", entity.changed_at),
        ("gone since", entity.gone_at),
    ]
    show_table(("what", "is"), [row for row in rows if row[1] not in ("", None)])
