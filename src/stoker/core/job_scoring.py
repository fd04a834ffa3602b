"""How good a posting is for a tenant: does the role fit, is the stack wanted, is it remote.

A score is the weighted mean of three parts, each 0 to 1; buckets are words for stretches of it.
What a posting says of itself is `job_enriching`'s business.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from stoker.core.model import Enriched, JobScore
from stoker.errors import ConfigError

ENOUGH_TAGS = 3  # technologies after which more of them say nothing new
BUCKETS = ("exceptional", "strong", "moderate", "weak")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobScoreRule:
    """What a tenant looks for in postings, and how much each part counts."""

    roles: tuple[str, ...] = ("engineer", "developer", "data")
    stack: tuple[str, ...] = ()  # empty: any technology we know is as good as another
    role_weight: float = 0.5
    stack_weight: float = 0.3
    remote_weight: float = 0.2
    exceptional_from: float = 0.85
    strong_from: float = 0.70
    moderate_from: float = 0.50

    def __post_init__(self) -> None:
        weights = (self.role_weight, self.stack_weight, self.remote_weight)
        if not all(0.0 <= weight <= 1e6 for weight in weights) or sum(weights) < 1e-6:
            raise ConfigError(f"weights are 0 or more and not all of them 0, not {weights}")
        limits = (self.exceptional_from, self.strong_from, self.moderate_from)
        if not 1.0 >= limits[0] >= limits[1] >= limits[2] >= 0.0:
            raise ConfigError(
                "buckets come in order, exceptional_from >= strong_from >= moderate_from, each "
                f"0 to 1; not {limits}"
            )


def job_score(enriched: Enriched, rule: JobScoreRule) -> JobScore:
    """Return the score of a posting, its bucket and the parts it is made of."""
    role, stack = role_fit(enriched.title, rule.roles), stack_fit(enriched.stack, rule.stack)
    remote = 1.0 if enriched.remote else 0.0
    # Added up in this order and by hand: `sum` rounds differently from one Python to the next.
    weighed = rule.role_weight * role + rule.stack_weight * stack + rule.remote_weight * remote
    score = min(weighed / (rule.role_weight + rule.stack_weight + rule.remote_weight), 1.0)
    parts = {"role_fit": role, "stack": stack, "remote": remote}
    return JobScore(job=enriched.job, score=score, bucket=bucket_of(score, rule), components=parts)


@lru_cache(maxsize=4096)  # most postings have the title of another one
def role_fit(title: str, roles: tuple[str, ...]) -> float:
    """Return how much of the best fitting role a normalised title has; 1 if none is wanted."""
    words = set(title.split())
    wanted = [set(role.lower().split()) for role in roles]
    return max((len(role & words) / len(role) for role in wanted if role), default=1.0)


def stack_fit(stack: tuple[str, ...], wanted: tuple[str, ...]) -> float:
    """Return how much of the wanted technologies is there; a few of many are enough."""
    if not wanted:
        return min(len(set(stack)), ENOUGH_TAGS) / ENOUGH_TAGS
    named = {tag.lower() for tag in wanted}
    enough = min(len(named), ENOUGH_TAGS)
    return min(len(named & set(stack)), enough) / enough


def bucket_of(score: float, rule: JobScoreRule) -> str:
    """Return the word for a score."""
    limits = (rule.exceptional_from, rule.strong_from, rule.moderate_from)
    for bucket, limit in zip(BUCKETS, limits, strict=False):
        if score >= limit:
            return bucket
    return BUCKETS[-1]
