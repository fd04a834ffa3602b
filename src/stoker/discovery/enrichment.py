"""Enrich postings from their words, and score them for a tenant.

Enrichment (title, seniority, technologies, remote) is deterministic and the same for every tenant;
an ambiguous word counts as a technology only where it can mean nothing else. A score is the
weighted mean of role fit, stack and remote, each 0 to 1, named by a bucket.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import lru_cache
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING

from stoker.base.types import EnrichedJob, Job, JobScore

if TYPE_CHECKING:
    from stoker.discovery.settings import DiscoverySettings

MAX_COUNTED_TAGS = 3  # technologies after which more of them say nothing new
BUCKETS = ("exceptional", "strong", "moderate", "weak")


def score_job(enriched: EnrichedJob, rule: DiscoverySettings) -> JobScore:
    """Return the score of a posting, its bucket and the parts it is made of."""
    role, stack = (
        compute_role_fit(enriched.title, rule.roles),
        compute_stack_fit(enriched.stack, rule.stack),
    )
    remote = 1.0 if enriched.remote else 0.0
    # Added up in this order and by hand: `sum` rounds differently from one Python to the next.
    weighed = rule.role_weight * role + rule.stack_weight * stack + rule.remote_weight * remote
    score = min(weighed / (rule.role_weight + rule.stack_weight + rule.remote_weight), 1.0)
    parts = {"role_fit": role, "stack": stack, "remote": remote}
    return JobScore(
        job=enriched.job, score=score, bucket=choose_job_bucket(score, rule), components=parts
    )


@lru_cache(maxsize=4096)  # most postings have the title of another one
def compute_role_fit(title: str, roles: tuple[str, ...]) -> float:
    """Return how much of the best fitting role a normalised title has; 1 if none is wanted."""
    words = set(title.split())
    wanted = [set(role.lower().split()) for role in roles]
    return max((len(role & words) / len(role) for role in wanted if role), default=1.0)


def list_role_tags(title: str, roles: Sequence[str]) -> list[str]:
    """Return the roles that a normalised title names."""
    words = set(title.split())
    return [role for role in roles if {*role.lower().split()} <= words]


def compute_stack_fit(stack: tuple[str, ...], wanted: tuple[str, ...]) -> float:
    """Return how much of the wanted technologies is there; a few of many are enough."""
    if not wanted:
        return min(len(set(stack)), MAX_COUNTED_TAGS) / MAX_COUNTED_TAGS
    named = {tag.lower() for tag in wanted}
    enough = min(len(named), MAX_COUNTED_TAGS)
    return min(len(named & set(stack)), enough) / enough


def choose_job_bucket(score: float, rule: DiscoverySettings) -> str:
    limits = (rule.exceptional_from, rule.strong_from, rule.moderate_from)
    for bucket, limit in zip(BUCKETS, limits, strict=False):
        if score >= limit:
            return bucket
    return BUCKETS[-1]


VERSION = 1  # of enrichment; a source enriched by an older version is read again in full
MAX_TAGS = 30
MAX_TEXT_LENGTH = 20_000  # characters of a posting's text that are looked at
_TITLE_CACHE_SIZE = 4096  # cached: most postings share a title with another one
_TOKEN = re.compile(r"\.?[A-Za-z0-9](?:[A-Za-z0-9+#.]*[A-Za-z0-9+#])?")
_WORD = re.compile(r"[^\W_]+(?:[+#]+|\.[^\W_]+)?")
_BRACKETED = re.compile(r"[(\[{][^()\[\]{}]*[)\]}]")
_TITLE_SUFFIX = re.compile(r"\s(?:[-–—|@•]|//)\s.*$|[|;].*$")
_LEVEL = re.compile(r"[ivx]{1,4}|l[0-9]|[0-9]+")

_ABBREVIATIONS: Mapping[str, str] = MappingProxyType(
    {
        "sr": "senior",
        "snr": "senior",
        "jr": "junior",
        "jnr": "junior",
        "mgr": "manager",
        "eng": "engineer",
        "engr": "engineer",
        "dev": "developer",
        "swe": "software engineer",
        "sre": "site reliability engineer",
        "sdr": "sales development representative",
    }
)

# The first that has a word in the title counts: learners come before those they learn from.
_SENIORITY: tuple[tuple[str, frozenset[str]], ...] = (
    ("intern", frozenset(("intern", "internship", "trainee", "apprentice", "apprenticeship"))),
    ("chief", frozenset(("chief", "ceo", "cto", "cfo", "coo", "cmo", "cio", "ciso", "cpo", "cro"))),
    ("head", frozenset(("head", "director", "vp", "president"))),
    ("staff", frozenset(("staff", "principal", "distinguished", "fellow"))),
    ("lead", frozenset(("lead", "leader"))),
    ("senior", frozenset(("senior",))),
    ("junior", frozenset(("junior", "graduate", "entry"))),
    ("manager", frozenset(("manager", "supervisor"))),
)

_RANKS = frozenset(("senior", "junior", "staff", "principal", "lead", "graduate", "entry", "level"))

_TAG_NAMES = (
    "python", "django", "fastapi", "pytorch", "tensorflow", "java", "kotlin", "javascript",
    "typescript", "node.js", "vue", "angular", "next.js", "php", "laravel", "c++", "c#", ".net",
    "objective-c", "ios", "android", "sql", "postgresql", "mysql", "mongodb", "redis",
    "elasticsearch", "kafka", "hadoop", "airflow", "dbt", "snowflake", "bigquery", "databricks",
    "tableau", "looker", "aws", "azure", "gcp", "kubernetes", "docker", "terraform", "ansible",
    "jenkins", "linux", "devops", "graphql", "salesforce", "hubspot", "sap", "figma", "odoo",
)  # fmt: skip

_TAGS: Mapping[str, str] = MappingProxyType(
    {name: name for name in _TAG_NAMES}
    | {
        "nodejs": "node.js",
        "reactjs": "react",
        "react.js": "react",
        "vue.js": "vue",
        "vuejs": "vue",
        "nextjs": "next.js",
        "golang": "go",
        "dotnet": ".net",
        "postgres": "postgresql",
        "pyspark": "spark",
        "k8s": "kubernetes",
    }
)

# These count only with a capital letter.
_CAPITALIZED_TAGS: Mapping[str, str] = MappingProxyType(
    {
        name: name.lower()
        for name in ["React", "Rust", "Scala", "Spark", "Ruby", "Rails", "Flask", "Excel"]
    }
)

_CAPITALIZED_LOWER = frozenset(name.lower() for name in _CAPITALIZED_TAGS)
_ROLE_WORDS = ("developer", "engineer", "programmer", "backend", "dev")

_PAIR_TAGS: Mapping[tuple[str, str], str] = MappingProxyType(
    {
        (word, maker): word
        for word in ("go", "swift", "react", "rust", "ruby")
        for maker in _ROLE_WORDS
    }
    | {
        ("spring", "boot"): "spring",
        ("react", "native"): "react native",
        ("power", "bi"): "power bi",
        ("google", "cloud"): "gcp",
        ("machine", "learning"): "machine learning",
        ("data", "engineering"): "data engineering",
        ("sql", "server"): "sql server",
    }
)

_PAIR_STARTS = frozenset(first for first, _ in _PAIR_TAGS)

_REMOTE = re.compile(
    r"\b(?:remote(?!\s+sensing)|wfh|work(?:ing)?\s+from\s+(?:home|anywhere)|telecommut\w*)\b",
    re.IGNORECASE,
)

_NOT_REMOTE = re.compile(
    r"\b(?:non|not|no|never|without|partly|partially)[\s-]+(?:fully[\s-]+)?(?:remote|wfh)\b|"
    r"\b(?:hybrid|on-?site)\b",
    re.IGNORECASE,
)


def enrich_job(job: Job, *, text: str = "", remote: bool = False) -> EnrichedJob:
    """Return what a posting's words say; `remote` is its source's own word, if it has one."""
    title, seniority, tags = _parse_title(job.title)
    return EnrichedJob(
        job=job.id,
        title=title,
        seniority=seniority,
        stack=_to_stack(tags.union(_find_tags(text[:MAX_TEXT_LENGTH])))
        if text
        else _to_stack(tags),
        remote=remote or is_remote(job.title, job.location),
    )


@lru_cache(maxsize=_TITLE_CACHE_SIZE)
def _parse_title(title: str) -> tuple[str, str, frozenset[str]]:
    return normalize_title(title), find_seniority(title), frozenset(_find_tags(title))


def normalize_title(title: str) -> str:
    """Return a title as others would write it: small letters, no rank, no asides, no numbers.

    One that is nothing but rank and numbers stays as it is, in small letters.
    """
    bare = _TITLE_SUFFIX.sub("", _BRACKETED.sub(" ", title))
    words = _split_title(bare) or _split_title(title)
    significant = [word for word in words if word not in _RANKS and not _LEVEL.fullmatch(word)]
    return " ".join(significant or words)


def find_seniority(title: str) -> str:
    """Return how senior a title says its holder is: a word of `intern` to `chief`, or none."""
    words = set(_split_title(title))
    return next((name for name, markers in _SENIORITY if words & markers), "")


def is_remote(title: str, location: str) -> bool:
    """Say whether a title or a place says that the work is done from anywhere."""
    says, denies = _find_remote_words(title)
    says_there, denies_there = _find_remote_words(location)
    return (says or says_there) and not (denies or denies_there)


@lru_cache(maxsize=_TITLE_CACHE_SIZE)
def _find_remote_words(text: str) -> tuple[bool, bool]:
    return bool(_REMOTE.search(text)), bool(_NOT_REMOTE.search(text))


def _to_stack(tags: Set[str]) -> tuple[str, ...]:
    return tuple(sorted(tags)[:MAX_TAGS])


def _split_title(title: str) -> list[str]:
    plain = (_ABBREVIATIONS.get(word, word) for word in _WORD.findall(title.lower()))
    return [part for word in plain for part in word.split()]


def _find_tags(text: str) -> Iterator[str]:
    tokens = _TOKEN.findall(text)
    small = " ".join(tokens).lower().split(" ")  # no token has a blank in it
    words = {*small}
    for token in _TAGS.keys() & words:
        yield _TAGS[token]
    if not words.isdisjoint(_CAPITALIZED_LOWER):
        for token in _CAPITALIZED_TAGS.keys() & {*tokens}:
            yield _CAPITALIZED_TAGS[token]
    if not words.isdisjoint(_PAIR_STARTS):
        for pair in _PAIR_TAGS.keys() & {*pairwise(small)}:
            yield _PAIR_TAGS[pair]
