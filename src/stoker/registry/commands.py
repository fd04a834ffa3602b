"""`stoker registry`: import the register of companies and classifications, and show them."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stoker.base.errors import ConfigError
from stoker.base.formats import format_count
from stoker.cli.options import COUNT, aliased_option, hide_command, sandbox_option
from stoker.cli.output import (
    Exit,
    async_command,
    json_option,
    pass_context,
    print_error,
    print_json,
    print_table,
    print_text,
)
from stoker.registry.ssic import VERSIONS
from stoker.settings.sandbox import ORIGIN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from stoker.base.events import Event, Observer
    from stoker.base.types import Json
    from stoker.cli.output import CommandContext
    from stoker.registry.files import CheckedFile
    from stoker.registry.model import Entity, Load
    from stoker.registry.service import ImportOptions, LoadResult, RegistryImport
    from stoker.registry.store import RegistryStore

_MAX_ERRORS_SHOWN = 10

_version_option = aliased_option(
    "--edition",
    "version",
    aliases=["--version"],
    type=click.Choice(VERSIONS),
    default=VERSIONS[0],
    show_default=True,
    help="The edition of the classification.",
)


@click.group("industries")
def ssic() -> None:
    """Show which industry codes a word stands for; import code titles."""


@ssic.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@_version_option
@json_option
@pass_context
@async_command
async def import_codes(asked: CommandContext, file: Path, version: str, as_json: bool) -> None:
    """Import a CSV FILE with a column of codes and one of titles; it replaces the titles."""
    from stoker.registry.files import read_industry_codes

    read = read_industry_codes(asked.directory / file, version=version)
    async with asked.open_app() as app:
        await app.backend.registry().load_codes(version, read.codes)
    for line, because in read.refused[:_MAX_ERRORS_SHOWN]:
        print_error(f"line {line} was rejected: {because}")
    if as_json:
        print_json({"version": version, "codes": len(read.codes), "left_out": len(read.refused)})
    else:
        print_text(
            f"Imported {format_count(len(read.codes), 'code')} of {version}; "
            f"{format_count(len(read.refused), 'row')} rejected."
        )


@ssic.command("show")
@click.argument("industry")
@_version_option
@json_option
@pass_context
@async_command
async def show_codes(asked: CommandContext, industry: str, version: str, as_json: bool) -> None:
    """Show which codes INDUSTRY stands for: digits, a section letter, or a word (technology)."""
    from stoker.registry.ssic import has_prefix, list_prefixes

    begins = list_prefixes(industry, version=version)
    async with asked.open_app(only_to_read=True) as app:
        codes = await app.backend.registry().list_codes(version)
    known = [each for each in codes if has_prefix(each.code, begins)]
    if as_json:
        rows = [{"code": e.code, "title": e.title, "level": e.level} for e in known]
        print_json({"industry": industry, "begins": list(begins), "codes": rows})
        return
    print_text(f"{industry}: codes that begin with {', '.join(begins)}")
    empty = f"No titles of {version} yet; import: stoker registry industries import FILE"
    print_table(
        ("code", "level", "title"), [(e.code, e.level, e.title) for e in known], empty=empty
    )


@click.command("import")
@click.argument("files", nargs=-1, metavar="[FILE]...")
@click.option("--download", is_flag=True, help="Download the newest files from data.gov.sg.")
@click.option("--letters", metavar="A,B,…", help="Download only these: A to Z, Others.")
@click.option(
    "--release", metavar="DATE", help="The files' release. Default: the date in the name."
)
@click.option(
    "--part", metavar="LETTER", help="Which part of the register the file is: A to Others."
)
@aliased_option(
    "--reread",
    is_flag=True,
    aliases=["--again"],
    help="Import also files that were imported before.",
)
@aliased_option(
    "--allow-older",
    is_flag=True,
    aliases=["--force"],
    help="Import also an older release, or a part that seems truncated.",
)
@sandbox_option
@json_option
@pass_context
@async_command
async def import_files(
    asked: CommandContext,
    files: tuple[str, ...],
    download: bool,
    letters: str | None,
    release: str | None,
    part: str | None,
    reread: bool,
    allow_older: bool,
    sandbox: str | None,
    as_json: bool,
) -> Exit:
    """Import FILEs of the register: CSV, .gz or .zip; a path, a URL, or - for stdin.

    The same file again changes nothing. Rejected rows are kept with the reason: see `stoker
    registry rejects`. Exit code 4 when a file was refused; the others are imported. Exit code 1
    when a third of a file's rows was rejected.
    """
    from stoker.registry.releases import find_part, parse_release
    from stoker.registry.service import ImportOptions

    if bool(files) == download:
        raise ConfigError("give files to import, or --download to get them from data.gov.sg")
    if part is not None and (len(files) != 1 or find_part(part) is None):
        raise ConfigError("--part is for one file: a letter from A to Z, or Others")
    if download and release is not None:
        raise ConfigError("--release is for files; a download has its own release")
    if letters is not None and not download:
        raise ConfigError("--letters goes with --download; files are named one by one")
    options = ImportOptions(
        release=None if release is None else parse_release(release),
        part=None if part is None else find_part(part),
        again=reread,
        force=allow_older,
    )
    asked = asked.use_sandbox(sandbox)
    done = await _import_all(asked, files, _parse_parts(letters), options, as_json=as_json)
    if sandbox is not None and done.read and not as_json:
        _print_sandbox_note(asked)
    if done.refused:
        return Exit.FAILED
    counts = [each.load.count for each in done.read]
    has_many = any(each.rejected and 3 * each.rejected >= each.rows_read for each in counts)
    return Exit.PROBLEMS if has_many else Exit.OK


async def _import_all(
    asked: CommandContext,
    files: tuple[str, ...],
    parts: list[str],
    options: ImportOptions,
    *,
    as_json: bool,
) -> RegistryImport:
    from stoker.registry.service import RegistryImport

    async with asked.open_app() as app:
        done = RegistryImport(
            app=app,
            options=options,
            on_refusal=print_error,
            show_progress=_show_progress,
            observer=_quiet_observer(app.observer),
        )
        try:
            if files:
                await done.read_files(files, directory=asked.directory)
            else:
                await done.read_published(parts)
        finally:
            # Also after an error: files before it are in, and stay in.
            _print_import(done, as_json=as_json)
    return done


@contextmanager
def _show_progress(file: CheckedFile) -> Iterator[Callable[[int], None]]:
    from stoker.base.telemetry import escape_invisible

    label = escape_invisible(file.name)
    with click.progressbar(
        length=file.lines, label=label, file=sys.stderr, hidden=not sys.stderr.isatty()
    ) as bar:
        yield lambda rows: bar.update(rows - bar.pos)


def _quiet_observer(observer: Observer) -> Observer:
    """Drop the log's line of a file where the summary says the same on one terminal."""
    from stoker.base.events import RegisterRead

    if not (sys.stderr.isatty() and sys.stdout.isatty()):
        return observer

    def observed(event: Event) -> None:
        if not isinstance(event, RegisterRead):
            observer(event)

    return observed


def _parse_parts(letters: str | None) -> list[str]:
    from stoker.registry.releases import find_part

    if letters is None:
        return []
    parts = [find_part(each) for each in letters.split(",")]
    if None in parts:
        raise ConfigError(
            f"{letters[:60]!r} has an unknown part; use A to Z and Others: A,B,Others"
        )
    return [part for part in dict.fromkeys(parts) if part is not None]


def _print_import(done: RegistryImport, *, as_json: bool) -> None:
    if as_json:
        refused: list[Json] = [dict(each) for each in done.refused]
        print_json({"files": [_to_import_json(each) for each in done.read], "refused": refused})
        return
    for each in done.read:
        load, count = each.load, each.load.count
        if each.is_repeat:
            print_text(f"{load.source}: imported on {load.ended_at:%Y-%m-%d}; nothing to do")
            continue
        print_text(
            f"{load.source}: {count.rows_read:,} rows of {load.release} in "
            f"{each.duration.total_seconds():.1f} s – {count.new:,} new, "
            f"{count.changed:,} changed, "
            f"{count.same:,} unchanged, {count.rejected:,} rejected, {count.gone:,} removed"
        )
        for doubt, many in each.doubts.items():
            print_text(f"  {format_count(many, 'row')} imported with a warning: {doubt}")
        _print_unknown_statuses(each.unknown_statuses)
    if any(each.load.count.rejected for each in done.read):
        print_text("See why rows were rejected: stoker registry rejects")


def _print_unknown_statuses(statuses: Mapping[str, int]) -> None:
    for status, many in list(statuses.items())[:_MAX_ERRORS_SHOWN]:
        print_text(f"    unknown status {status}: {format_count(many, 'row')}")
    if len(statuses) > _MAX_ERRORS_SHOWN:
        print_text(f"    and {len(statuses) - _MAX_ERRORS_SHOWN} more statuses; see --json")


def _print_sandbox_note(asked: CommandContext) -> None:
    settings = asked.read_settings()
    if settings.get_origin("storage.sqlite_path") == ORIGIN:
        address = settings.sandbox.address
        print_text(
            f"Sandbox data, stored apart; see it with: stoker --set sandbox.address={address} …"
        )


def _to_import_json(each: LoadResult) -> Json:
    return {
        **_to_load_json(each.load),
        "before": each.is_repeat,
        "seconds": each.duration.total_seconds(),
        "doubts": dict(each.doubts),
        "unknown_statuses": dict(each.unknown_statuses),
    }


_COUNT_FIELDS = ("state", "status", "kind", "division")


@click.group()
def registry() -> None:
    """Import and show the register of companies."""


registry.add_command(import_files)

registry.add_command(ssic)
registry.add_command(hide_command(ssic), "ssic")


@registry.command()
@click.option(
    "--by", type=click.Choice(_COUNT_FIELDS), default="state", help="What companies are counted by."
)
@click.option(
    "--loads", type=click.IntRange(0, 1000), default=10, help="How many imports are shown."
)
@json_option
@pass_context
@async_command
async def status(asked: CommandContext, by: str, loads: int, as_json: bool) -> None:
    """Count companies in the register, and list the newest imports."""
    async with asked.open_app(only_to_read=True) as app:
        store = app.backend.registry()
        newest = await store.list_loads(limit=loads) if loads else []
        counts = await store.count_entities(by=by)
    if as_json:
        print_json(
            {"by": by, "counts": dict(counts), "loads": [_to_load_json(each) for each in newest]}
        )
        return
    if not counts and not newest:
        print_text("the register is empty; read it with: stoker registry import --download")
        return
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    print_table((by, "entities"), [(word, f"{many:,}") for word, many in ranked])
    print_text()
    print_table(
        (
            "release",
            "part",
            "began",
            "ended",
            "new",
            "changed",
            "unchanged",
            "rejected",
            "removed",
            "source",
        ),
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
        empty="No imports.",
    )


@registry.command()
@click.option("--after", type=COUNT, default=0, metavar="N", help="Start after this number.")
@click.option(
    "--limit", type=click.IntRange(1, 10_000), default=50, help="Show at most this many rows."
)
@json_option
@pass_context
@async_command
async def rejects(asked: CommandContext, after: int, limit: int, as_json: bool) -> None:
    """List rejected rows, oldest first, each with the reason."""
    async with asked.open_app(only_to_read=True) as app:
        found = await app.backend.registry().list_rejects(after=after, limit=limit)
    if as_json:
        print_json([asdict(each) for each in found])
        return
    print_table(
        ("number", "load", "line", "reason", "row"),
        [(e.number, e.load[:12], e.line, e.reason, e.text[:60]) for e in found],
        empty="No row was rejected.",
    )
    if len(found) == limit:
        print_text(f"There may be more: --after {found[-1].number}")


@registry.command()
@click.argument("uen")
@json_option
@pass_context
@async_command
async def show(asked: CommandContext, uen: str, as_json: bool) -> Exit:
    """Show one company by its number (UEN). Exit code 1 when the register does not have it."""
    async with asked.open_app(only_to_read=True) as app:
        entity, title = await _find_entity(app.backend.registry(), uen.strip().upper())
    if as_json:
        print_json(None if entity is None else _to_entity_json(entity, title))
    elif entity is None:
        print_text(f"The imported register has no company {uen[:40]}; see: stoker registry status")
    else:
        _print_entity(entity, title)
    return Exit.PROBLEMS if entity is None else Exit.OK


async def _find_entity(store: RegistryStore, uen: str) -> tuple[Entity | None, str]:
    if not uen or (entity := await store.find_entity(uen)) is None:
        return None, ""
    for version in VERSIONS:  # the register still uses the older edition; it comes first
        titles = {code.code: code.title for code in await store.list_codes(version)}
        if entity.ssic in titles:
            return entity, titles[entity.ssic]
    return entity, ""


def _to_load_json(load: Load) -> dict[str, Json]:
    told = {name: _to_text(value) for name, value in asdict(load).items() if name != "count"}
    return {**told, "rows": load.count.rows_read, **asdict(load.count)}


def _to_entity_json(entity: Entity, title: str) -> Json:
    told = {name: _to_text(value) for name, value in asdict(entity).items() if name != "digest"}
    return {**told, "ssic_title": title}


def _to_text(value: Any) -> Any:
    return value.isoformat() if isinstance(value, date) else value


def _print_entity(entity: Entity, title: str) -> None:
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
    print_table(("what", "is"), [row for row in rows if row[1] not in ("", None)])
