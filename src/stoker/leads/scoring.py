"""Score a lead: features, a weighted score, a bucket, and the reasons.

Each feature is between 0 and 1 and never falls when more good is known, so neither does the score.
A company known to be larger or smaller than the ICP wants is not a lead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from stoker.accounts.facts import FactField
from stoker.accounts.icp import IcpRule
from stoker.accounts.model import Bucket, CompanyRecord, Contact, EmailStatus, LeadScore
from stoker.base.jsontools import compute_digest
from stoker.base.types import Json
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

_SENIOR = ("chief", "ceo", "cto", "cfo", "coo", "founder", "owner", "director", "president")

_MANAGERS = ("head", "vp", "vice", "manager", "lead", "partner")

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
    weights = rule.weights
    total = sum(weights.values())
    parts = {name: weights[name] * value / total for name, value in features.items()}
    value = min(max(round(sum(parts.values()), 4), 0.0), 1.0)
    if _is_size_mismatch(features):
        value = 0.0
    return LeadScore(
        value=value,
        bucket=get_bucket(value, rule),
        features=features,
        feature_hash=compute_feature_hash(features, rule),
        rationale=build_plain_rationale(value, features, parts, rule),
    )


def get_bucket(value: float, rule: ScoreRule) -> Bucket:
    """Return the bucket of a score."""
    if value >= rule.high_from:
        return Bucket.HIGH
    return Bucket.MEDIUM if value >= rule.medium_from else Bucket.LOW


def compute_feature_hash(features: Mapping[str, float], rule: ScoreRule) -> str:
    """Return a digest: equal features under an equal rule give an equal rationale."""
    values: Json = [dict(features), rule.weights, rule.high_from, rule.medium_from]
    return compute_digest(values, length=16)


def build_plain_rationale(
    value: float, features: Mapping[str, float], parts: Mapping[str, float], rule: ScoreRule
) -> str:
    """Return what counts for a lead, most first, and what counts most against it."""
    ranked = sorted(parts, key=lambda name: (-parts[name], name))
    good = [
        _FEATURE_TEXTS[name][0]
        for name in ranked
        # An unknown size counts half and is not mentioned.
        if features[name] >= (1.0 if name == "size" else 0.5) and parts[name] > 0
    ][:3]
    missing = {
        name: rule.weights[name] * (1 - features[name]) for name in features if features[name] < 0.5
    }
    worst = max(sorted(missing), key=lambda name: missing[name], default=None)
    sentence = f"{get_bucket(value, rule)} ({value:.2f}): " + ("; ".join(good) or "little is known")
    if _is_size_mismatch(features):
        return f"{sentence}; but {_FEATURE_TEXTS['size'][1]}."
    return (
        f"{sentence}; but {_FEATURE_TEXTS[worst][1]}."
        if worst and missing[worst] > 0
        else f"{sentence}."
    )


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
    by_mail = max(
        (_REACHABILITY[each.verdict] for each in record.contacts if each.email), default=0.0
    )
    by_phone = 0.3 if _has_phone(record) else 0.0
    return max(by_mail, by_phone)


def _has_phone(record: CompanyRecord) -> bool:
    return any(contact.phone for contact in record.contacts) or any(
        fact.field is FactField.PHONE for fact in record.facts
    )


def _score_decision_maker(record: CompanyRecord, _: IcpRule) -> float:
    return max((_score_seniority(contact) for contact in record.contacts), default=0.0)


def _score_seniority(contact: Contact) -> float:
    words = f"{contact.title} {contact.seniority}".casefold().replace("-", " ").split()
    if any(word.startswith(_SENIOR) for word in words):
        return 1.0
    if any(word.startswith(_MANAGERS) for word in words):
        return 0.7
    return 0.4 if contact.name else 0.0


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
    hiring = 0.6 if record.notes.get("hiring") else 0.0
    return min(hiring + 0.1 * len(technologies), 1.0)


_FEATURES: Mapping[str, Callable[[CompanyRecord, IcpRule], float]] = {
    "industry": _score_industry,
    "size": _score_size,
    "reachable": _score_reachable,
    "decision_maker": _score_decision_maker,
    "presence": _score_presence,
    "momentum": _score_momentum,
}
