"""`stoker registry`: what is in the register of companies, how it came there, what did not.

Looking changes nothing and makes nothing. Reading files is `registry_import`'s, classifications
of industries are `registry_codes`'.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stoker.cli.output import (
    Asked,
    Exit,
    pass_asked,
    run_async,
    say,
    show_json,
    show_table,
    takes_json,
)
from stoker.cli.registry_codes import ssic
from stoker.cli.registry_import import import_files

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stoker.core.entities import Entity, Load, Reject
    from stoker.core.model import Json

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
