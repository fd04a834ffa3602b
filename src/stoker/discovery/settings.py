"""The settings of discovery, which are the rule by which postings are read and scored.

Each is a tenant's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stoker.base.errors import ConfigError
from stoker.base.types import is_storable
from stoker.config.fields import BOOLEAN, PATH, FieldType, Section, number, tenant_setting

if TYPE_CHECKING:
    from stoker.discovery.sources import SourceSpec

MAX_SOURCES = 10_000

MAX_WORDS = 200

_SHARE, _WEIGHT = number(0, 1), number(0, 1000)


def _parse_sources(given: Any, typed: bool) -> tuple[SourceSpec, ...]:
    from stoker.discovery.sources import hide_secrets, parse_source

    sources = [parse_source(text) for text in _split_texts(given, typed, between=";\n")]
    names = [source.name for source in sources]
    if len(names) > MAX_SOURCES:
        raise ConfigError(f"a tenant has at most {MAX_SOURCES} sources, not {len(names)}")
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ConfigError(f"the source {hide_secrets(name)[:80]} is there twice; keep one")
        seen.add(name)
    return tuple(sources)


def _hide_secrets(text: str) -> str:
    from stoker.discovery.sources import hide_secrets

    return hide_secrets(text)


SOURCES = FieldType(
    name="sources of postings",
    allowed='a list such as ["greenhouse:acme", "feed:https://acme.com/jobs.rss", "file:jobs.csv"]',
    parse=_parse_sources,
    format=_hide_secrets,
)


def _parse_words(given: Any, typed: bool) -> tuple[str, ...]:
    words = tuple(dict.fromkeys(text.lower() for text in _split_texts(given, typed, between=",")))
    if len(words) > MAX_WORDS:
        raise ValueError(given)
    return words


WORDS = FieldType(
    name="words", allowed=f"at most {MAX_WORDS} of them, separated by commas", parse=_parse_words
)


def _split_texts(given: Any, typed: bool, *, between: str) -> list[str]:
    """Return the texts of a list, or of one text with separators."""
    parts: Sequence[Any]
    if typed and isinstance(given, list):
        parts = given
    elif isinstance(given, str):
        for mark in between[1:]:
            given = given.replace(mark, between[0])
        parts = given.split(between[0])
    else:
        raise ValueError("wrong type")
    if not all(isinstance(part, str) and is_storable(part) for part in parts):
        raise ValueError(given)
    return [part.strip() for part in parts if part.strip()]


@dataclass(frozen=True, kw_only=True)
class DiscoverySettings(Section):
    """Where job postings are looked for, and what is made of them."""

    sources: tuple[SourceSpec, ...] = tenant_setting(
        SOURCES,
        (),
        "Boards, feeds and files that list postings; after bars, whose they are and at which "
        "domain. In the environment they are separated by semicolons.",
    )
    scheduled: bool = tenant_setting(
        BOOLEAN, False, "Whether `stoker schedule run` also reads the sources when runs are due."
    )
    enrich: bool = tenant_setting(
        BOOLEAN, False, "Whether every discovery also enriches and scores postings."
    )
    out: Path = tenant_setting(
        PATH, Path("discovered"), "Where files of postings go; with several tenants, to one below."
    )
    roles: tuple[str, ...] = tenant_setting(
        WORDS, ("engineer", "developer", "data"), "Roles that fit; none means that all do."
    )
    stack: tuple[str, ...] = tenant_setting(
        WORDS, (), "Technologies that are wanted; none means that any is as good as another."
    )
    role_weight: float = tenant_setting(_WEIGHT, 0.5, "How much it counts that the role fits.")
    stack_weight: float = tenant_setting(_WEIGHT, 0.3, "How much the technologies count.")
    remote_weight: float = tenant_setting(
        _WEIGHT, 0.2, "How much it counts that the work is remote."
    )
    exceptional_from: float = tenant_setting(
        _SHARE, 0.85, "The least score that is called exceptional."
    )
    strong_from: float = tenant_setting(_SHARE, 0.70, "The least score that is called strong.")
    moderate_from: float = tenant_setting(_SHARE, 0.50, "The least score that is called moderate.")
    signal_strength: float = tenant_setting(
        _SHARE, 0.5, "How strong a signal it is that an account hires; 0 switches it off."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        weights = (self.role_weight, self.stack_weight, self.remote_weight)
        if sum(weights) < 1e-6:
            raise ConfigError(f"weights are 0 or more and not all of them 0, not {weights}")
        limits = (self.exceptional_from, self.strong_from, self.moderate_from)
        if not limits[0] >= limits[1] >= limits[2]:
            raise ConfigError(
                "buckets come in order, exceptional_from >= strong_from >= moderate_from; "
                f"not {limits}"
            )
