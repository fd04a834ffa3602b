"""Score a lead: features, a weighted score, a bucket, and the reasons.

Each feature is between 0 and 1. Whether a lead can be reached and whether it decides are features
of one person, the one that the lead is about. A company known to be larger or smaller than the ICP
wants is not a lead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from stoker.accounts.contacts import get_seniority, is_person, list_own_contacts, rank_contacts
from stoker.accounts.facts import FactField
from stoker.accounts.icp import IcpRule
from stoker.accounts.model import Bucket, CompanyRecord, Contact, EmailStatus, LeadScore
from stoker.accounts.people import DECIDES_FROM
from stoker.base.jsontools import compute_digest
from stoker.base.types import Json
from stoker.leads.reasons import (
    HIRING_NOTE,
    OPENINGS_NOTE,
    POSTINGS_NOTE,
    build_reason,
    get_count,
)
from stoker.leads.settings import ScoreRule

PROBABLE_SHARE = 0.5  # what a website that may be another's counts of its features

_SITE_FEATURES = ("reachable", "decision_maker", "presence", "momentum")  # what a site shows

_REACHABILITY = {
    EmailStatus.VALID: 1.0,
    EmailStatus.CATCH_ALL: 0.6,
    EmailStatus.UNKNOWN: 0.4,
    EmailStatus.UNVERIFIED: 0.4,
    EmailStatus.RISKY: 0.0,
    EmailStatus.INVALID: 0.0,
}

MAILBOX_SHARE = 0.4  # what a mailbox counts of a person's address

# Of growth: a page of openings, each opening there, each job posting elsewhere, each technology.
HIRING_PAGE, OPENING, POSTING, TECHNOLOGY = 0.2, 0.06, 0.08, 0.03

MAX_OPENINGS, MAX_POSTINGS, MAX_TECHNOLOGIES = 10, 10, 5  # that count

_AGAINST_BELOW = {"momentum": HIRING_PAGE}  # a feature speaks against a lead below 0.5, or this

_FEATURE_TEXTS = {  # the text for the lead, and the text against it
    "industry": ("industry matches", "industry unknown or outside the ICP"),
    "size": ("size matches", "size outside the ICP, so not a lead"),
    "reachable": ("verified email", "no verified email"),
    "decision_maker": ("decision maker known", "no decision maker known"),
    "presence": ("informative website", "website has little text"),
    "momentum": ("hiring or growing", "no sign of growth"),
}


def score_lead(record: CompanyRecord, icp: IcpRule, rule: ScoreRule | None = None) -> LeadScore:
    """Score a company record against a tenant's ideal customer profile."""
    rule = rule or ScoreRule()
    share = PROBABLE_SHARE if record.is_site_probable else 1.0
    features = {
        name: feature(record, icp) * (share if name in _SITE_FEATURES else 1.0)
        for name, feature in _FEATURES.items()
    }
    parts = _weigh(features, rule)
    value = min(max(round(sum(parts.values()), 4), 0.0), 1.0)
    if _is_size_mismatch(features):
        value = 0.0
    bucket = get_bucket(value, rule, can_be_high=_can_be_high(record))
    return LeadScore(
        value=value,
        bucket=bucket,
        features=features,
        feature_hash=compute_feature_hash(features, rule, bucket),
        rationale=build_reason(
            record,
            opening=f"{bucket} ({value:.2f}): ",
            against=_find_against(features, rule),
        ),
    )


def get_bucket(value: float, rule: ScoreRule, *, can_be_high: bool = True) -> Bucket:
    """Return the bucket of a score. Only a person who decides, at a verified address, is High."""
    if value >= rule.high_from and can_be_high:
        return Bucket.HIGH
    return Bucket.MEDIUM if value >= rule.medium_from else Bucket.LOW


def find_weakest_feature(features: Mapping[str, float], rule: ScoreRule | None = None) -> str:
    """Return the feature that costs a lead most, or an empty text for a perfect one."""
    weights = (rule or ScoreRule()).weights
    lost = {name: weights.get(name, 0.0) * (1 - value) for name, value in features.items()}
    worst = max(sorted(lost), key=lambda name: lost[name], default="")
    return worst if worst and lost[worst] > 0 else ""


def _weigh(features: Mapping[str, float], rule: ScoreRule) -> dict[str, float]:
    weights = rule.weights
    total = sum(weights.values())
    return {name: weights[name] * value / total for name, value in features.items()}


def _can_be_high(record: CompanyRecord) -> bool:
    best = _find_person(record)
    return (
        best is not None
        and not record.is_site_probable
        and best.verdict is EmailStatus.VALID
        and bool(best.email)
        and get_seniority(best) >= DECIDES_FROM
    )


def _find_person(record: CompanyRecord) -> Contact | None:
    """Return the contact that a lead is about, or would be if the site were the company's."""
    known = record.contacts if record.is_site_probable else list_own_contacts(record)
    return next(iter(rank_contacts(known)), None)


def compute_feature_hash(features: Mapping[str, float], rule: ScoreRule, bucket: Bucket) -> str:
    """Return a digest: equal features under an equal rule are reworded alike."""
    values: Json = [dict(features), rule.weights, rule.high_from, rule.medium_from, bucket]
    return compute_digest(values, length=16)


def build_plain_rationale(score: LeadScore, rule: ScoreRule) -> str:
    """Return what counts for a lead, most first, and what counts most against it.

    In our own words alone, without facts about the company: a model may read and reword it.
    """
    features, parts = score.features, _weigh(score.features, rule)
    ranked = sorted(parts, key=lambda name: (-parts[name], name))
    good = [
        _FEATURE_TEXTS[name][0]
        for name in ranked
        # An unknown size counts half and is not mentioned.
        if features[name] >= (1.0 if name == "size" else 0.5) and parts[name] > 0
    ][:3]
    sentence = f"{score.bucket} ({score.value:.2f}): " + ("; ".join(good) or "little is known")
    against = _find_against(features, rule)
    return f"{sentence}; but {against}." if against else f"{sentence}."


def _find_against(features: Mapping[str, float], rule: ScoreRule) -> str:
    if _is_size_mismatch(features):
        return _FEATURE_TEXTS["size"][1]
    missing = {
        name: value for name, value in features.items() if value < _AGAINST_BELOW.get(name, 0.5)
    }
    worst = find_weakest_feature(missing, rule)
    return _FEATURE_TEXTS[worst][1] if worst else ""


def _score_industry(record: CompanyRecord, icp: IcpRule) -> float:
    if not record.company.ssic:
        return 0.3
    return 1.0 if record.company.ssic.startswith(icp.industries or ("",)) else 0.0


def _score_size(record: CompanyRecord, icp: IcpRule) -> float:
    people = record.company.employees
    if people is None:
        return 0.5
    least, most = icp.employees
    return 1.0 if least <= people <= most else 0.0


def _is_size_mismatch(features: Mapping[str, float]) -> bool:
    return features["size"] == 0.0  # a size that fits, or is unknown, is above 0


def _score_reachable(record: CompanyRecord, _: IcpRule) -> float:
    best = _find_person(record)
    by_phone = 0.3 if _has_phone(record, best) else 0.0
    if best is None or not best.email:
        return by_phone
    share = 1.0 if is_person(best) else MAILBOX_SHARE
    return max(_REACHABILITY[best.verdict] * share, by_phone)


def _has_phone(record: CompanyRecord, best: Contact | None) -> bool:
    return bool(best and best.phone) or any(fact.field is FactField.PHONE for fact in record.facts)


def _score_decision_maker(record: CompanyRecord, _: IcpRule) -> float:
    best = _find_person(record)
    return get_seniority(best) if best else 0.0


def _score_presence(record: CompanyRecord, _: IcpRule) -> float:
    fields = {fact.field for fact in record.facts}
    telling = {
        FactField.ABOUT,
        FactField.PHONE,
        FactField.EMAIL,
        FactField.ADDRESS,
        FactField.SOCIAL,
    }
    site = 0.25 if record.company.website else 0.0
    return site + 0.15 * len(fields & telling)


def _score_momentum(record: CompanyRecord, _: IcpRule) -> float:
    technologies = {fact.value for fact in record.facts if fact.field is FactField.TECHNOLOGY}
    value = TECHNOLOGY * min(len(technologies), MAX_TECHNOLOGIES)
    if record.notes.get(HIRING_NOTE):
        value += HIRING_PAGE + OPENING * min(get_count(record, OPENINGS_NOTE), MAX_OPENINGS)
    if postings := get_count(record, POSTINGS_NOTE):
        value += HIRING_PAGE + POSTING * min(postings, MAX_POSTINGS)
    return min(round(value, 4), 1.0)


_FEATURES: Mapping[str, Callable[[CompanyRecord, IcpRule], float]] = {
    "industry": _score_industry,
    "size": _score_size,
    "reachable": _score_reachable,
    "decision_maker": _score_decision_maker,
    "presence": _score_presence,
    "momentum": _score_momentum,
}
