"""`stoker registry import`: what can be asked for, and how it is told what came of it.

How files come here and are read is `registry_reading`'s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stoker.cli.output import Asked, Exit, pass_asked, run_async, say, show_json, takes_json
from stoker.config.make_believe import ORIGIN
from stoker.errors import ConfigError

if TYPE_CHECKING:
    from stoker.cli.registry_reading import Outcome, Wanted
    from stoker.core.model import Json
    from stoker.engine.registering import Registered


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
    from stoker.cli.registry_reading import Outcome, Wanted
    from stoker.core.acra_numbers import known_part, release_of

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
    from stoker.cli.registry_reading import read_files, read_published

    async with asked.app() as app:
        if files:
            await read_files(app, files, wanted, outcome, directory=asked.directory)
        else:
            await read_published(app, parts, wanted, outcome)


def _parts(letters: str | None) -> list[str]:
    from stoker.core.acra_numbers import known_part

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
    from stoker.cli.registry import load_json

    return {
        **load_json(each.load),
        "before": each.before,
        "seconds": each.took.total_seconds(),
        "doubts": dict(each.doubts),
    }
