"""One opening as Greenhouse, Lever and Ashby write it down: their fields, their quirks.

Greenhouse escapes its markup, Lever counts milliseconds, Ashby tells pay only to who asks.
"""

from __future__ import annotations

from datetime import timedelta, timezone
from hashlib import sha256
from html import escape
from typing import Any

from stoker.core.model import Json
from stoker.sandbox.openings import Opening
from stoker.sandbox.world import Company

_NEW_YORK = timezone(timedelta(hours=-5))


def greenhouse_posting(company: Company, opening: Opening, *, full: bool) -> dict[str, Any]:
    """Return a job as Greenhouse writes it; with its description when asked in full."""
    posting: dict[str, Any] = {
        "absolute_url": f"http://greenhouse.test/{company.slug}/jobs/{opening.number}",
        "data_compliance": [
            {
                "type": "gdpr",
                "requires_consent": False,
                "requires_processing_consent": False,
                "requires_retention_consent": False,
                "retention_period": None,
                "demographic_data_consent_applies": False,
            }
        ],
        "internal_job_id": opening.number + 3_000_000,
        "location": {"name": opening.location},
        "metadata": None,
        "id": opening.number,
        "updated_at": opening.changed_at.astimezone(_NEW_YORK).isoformat(timespec="seconds"),
        "requisition_id": f"R{opening.number % 1000}",
        "title": opening.title,
        "company_name": company.brand,
        "first_published": opening.posted_at.astimezone(_NEW_YORK).isoformat(timespec="seconds"),
        "language": "en",
    }
    if full:
        place = _number(opening.location)
        posting |= {
            "content": escape(f"<p>{escape(opening.words)}</p>"),
            "departments": [
                {
                    "id": _number(opening.department),
                    "name": opening.department,
                    "child_ids": [],
                    "parent_id": None,
                }
            ],
            "offices": [
                {
                    "id": place,
                    "name": opening.location,
                    "location": opening.location,
                    "child_ids": [],
                    "parent_id": None,
                }
            ],
        }
    return posting


def lever_posting(company: Company, opening: Opening) -> dict[str, Any]:
    """Return a posting as Lever writes it."""
    id_ = _uuid("lever", company.slug, opening.number)
    url = f"http://lever.test/{company.slug}/{id_}"
    markup = f"<div>{escape(opening.words)}</div>"
    posting: dict[str, Any] = {
        "additional": "",
        "additionalPlain": "",
        "categories": {
            "commitment": _commitment(opening),
            "department": opening.department,
            "location": opening.location,
            "team": opening.department,
            "allLocations": [opening.location],
        },
        "country": "SG" if opening.location.startswith("Singapore") else None,
        "createdAt": int(opening.posted_at.timestamp() * 1000),
        "description": markup,
        "descriptionBody": markup,
        "descriptionBodyPlain": opening.words,
        "descriptionPlain": opening.words,
        "hostedUrl": url,
        "applyUrl": f"{url}/apply",
        "id": id_,
        "lists": [{"text": "Requirements", "content": "<li>Curiosity</li><li>Care</li>"}],
        "opening": "",
        "openingPlain": "",
        "text": opening.title,
        "workplaceType": "remote" if opening.remote else "on-site",
    }
    if opening.lowest_pay is not None:
        posting["salaryRange"] = {
            "currency": "SGD",
            "interval": "per-year-salary",
            "min": opening.lowest_pay,
            "max": opening.highest_pay,
        }
    return posting


def ashby_posting(company: Company, opening: Opening, *, pay: bool) -> dict[str, Any]:
    """Return a job as Ashby writes it; with its pay when that was asked for."""
    id_ = _uuid("ashby", company.slug, opening.number)
    url = f"http://ashby.test/{company.slug}/{id_}"
    published = opening.posted_at.isoformat(timespec="milliseconds")
    posting: dict[str, Any] = {
        "id": id_,
        "title": opening.title,
        "department": opening.department,
        "team": opening.department,
        "employmentType": "FullTime" if opening.full_time else "PartTime",
        "location": opening.location,
        "shouldDisplayCompensationOnJobPostings": opening.lowest_pay is not None,
        "secondaryLocations": [],
        "publishedAt": published,
        "isListed": True,
        "isRemote": opening.remote,
        "workplaceType": "Remote" if opening.remote else "OnSite",
        "address": {
            "postalAddress": {
                "addressCountry": opening.location.rpartition(", ")[2],
                "addressLocality": opening.location.partition(",")[0],
            }
        },
        "jobUrl": url,
        "applyUrl": f"{url}/application",
        "descriptionHtml": f"<p>{escape(opening.words)}</p>",
        "descriptionPlain": opening.words,
    }
    if pay:
        posting["compensation"] = _compensation(opening)
    return posting


def _compensation(opening: Opening) -> Json:
    if opening.lowest_pay is None or opening.highest_pay is None:
        return {
            "compensationTierSummary": None,
            "scrapeableCompensationSalarySummary": None,
            "compensationTiers": [],
            "summaryComponents": [],
        }
    said = f"SGD {opening.lowest_pay // 1000}K – SGD {opening.highest_pay // 1000}K"
    part: Json = {
        "compensationType": "Salary",
        "interval": "1 YEAR",
        "currencyCode": "SGD",
        "minValue": opening.lowest_pay,
        "maxValue": opening.highest_pay,
    }
    return {
        "compensationTierSummary": said,
        "scrapeableCompensationSalarySummary": said.replace("SGD ", "S$"),
        "compensationTiers": [
            {
                "id": _uuid("tier", opening.number),
                "tierSummary": said,
                "title": None,
                "additionalInformation": None,
                "components": [part],
            }
        ],
        "summaryComponents": [part],
    }


def _commitment(opening: Opening) -> str:
    return "Full-time" if opening.full_time else "Part-time"


def _number(text: str) -> int:
    return int(sha256(text.encode()).hexdigest()[:8], 16) % 10**8


def _uuid(*what: object) -> str:
    digest = sha256("|".join(map(str, what)).encode()).hexdigest()
    return "-".join((digest[:8], digest[8:12], "4" + digest[13:16], digest[16:20], digest[20:32]))
