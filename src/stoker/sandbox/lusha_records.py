"""People and companies of the world, as the contact vendor describes them.

Search shows no personal data; revealing does, for most people. Ids follow from the world, so the
same person has the same id tomorrow. What anything costs is not known here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stoker.core.model import Json
from stoker.sandbox.world import Company, Person, World

Who = tuple[Company, Person]


class LushaRecords:
    """What the vendor has on the companies of a world."""

    def __init__(self, world: World) -> None:
        self._world = world

    def found(self, item: Any) -> Json:
        """Return the outline of a person that was asked for, or an item error."""
        reference = item.get("clientReferenceId") if isinstance(item, Mapping) else None
        who = self.match(item)
        if who is None:
            return {"clientReferenceId": reference, **not_found()}
        outline = self.outline(*who)
        return {"clientReferenceId": reference, **outline}

    def match(self, item: Any) -> Who | None:
        """Return who an item speaks of, by id, address, or name and company."""
        if not isinstance(item, Mapping):
            return None
        if "id" in item:
            return self.by_id(item["id"])
        email = item.get("email")
        if isinstance(email, str):
            known = self._world.by_email(email)
            return (known[0], known[1]) if known and known[1] else None
        company = self._world.by_domain(str(item.get("companyDomain", "")))
        if company is None:
            return None
        wanted = f"{item.get('firstName', '')} {item.get('lastName', '')}".casefold()
        person = next((one for one in company.people if one.name.casefold() == wanted), None)
        return None if person is None else (company, person)

    def by_id(self, id_: Any) -> Who | None:
        """Return the person with this id."""
        index, _, nth = str(id_).removeprefix("ct-").partition("-")
        if not (index.isascii() and index.isdigit() and nth.isascii() and nth.isdigit()):
            return None
        if len(index) > 12 or len(nth) > 4 or int(index) >= self._world.size:
            return None
        company = self._world.company(int(index))
        return (company, company.people[int(nth)]) if int(nth) < len(company.people) else None

    def prospects(self, filters: Mapping[str, Any]) -> list[Who]:
        """Return the people at some companies that a filter lets through."""
        people = _included(filters, "contacts")
        domains = _included(filters, "companies").get("domains", [])
        titles = [str(one).casefold() for one in people.get("jobTitles", [])]
        places = people.get("departments", [])
        found: list[Who] = []
        for domain in domains[:100] if isinstance(domains, list) else []:
            company = self._world.by_domain(str(domain))
            if company is None:
                continue
            for person in company.people:
                title = person.title.casefold()
                if titles and not any(one in title or title in one for one in titles):
                    continue
                if places and person.department not in places:
                    continue
                if "work_email" in people.get("existingDataPoints", []) and not has_email(person):
                    continue
                found.append((company, person))
        return found

    def outline(self, company: Company, person: Person) -> dict[str, Json]:
        """Return what search shows of a person: nothing personal."""
        nth = company.people.index(person)
        has: list[str] = ["emails"] if has_email(person) else []
        has += ["phones"] if has_phone(person) else []
        prices = {"emails": 1, "phones": 5}
        return {
            "id": f"ct-{company.index}-{nth}",
            "firstName": person.first_name,
            "lastName": person.last_name,
            "jobTitle": {
                "title": person.title,
                "departments": [person.department],
                "seniority": person.seniority,
            },
            "company": {
                "id": f"co-{company.index}",
                "name": company.brand,
                "domain": company.domain,
            },
            "location": {"country": "Singapore", "city": "Singapore"},
            "socialLinks": {"linkedin": f"https://linkedin.example/in/{company.index}-{nth}"},
            "has": has,
            "canReveal": [{"field": field, "credits": prices[field]} for field in has],
        }

    def revealed(
        self, who: Who | None, fields: list[str]
    ) -> tuple[dict[str, Json], list[tuple[str, str]]]:
        """Return a person with what is revealed, and the data points that were."""
        if who is None:
            return not_found(), []
        company, person = who
        told = self.outline(company, person)
        id_ = str(told["id"])
        fate = self._world.draws("lusha", id_).share()
        if fate < 0.03:
            return _failed(id_, "COMPLIANCE_RESTRICTED", "The contact asked not to be shown"), []
        if fate < 0.05:
            return _failed(id_, "ENRICH_FAILED", "The contact could not be enriched"), []
        points: list[tuple[str, str]] = []
        if "emails" in fields:
            told["emails"] = _emails(person)
            points += [(id_, "emails")] if has_email(person) else []
        if "phones" in fields:
            told["phones"] = _phones(person)
            points += [(id_, "phones")] if has_phone(person) else []
        return told, points

    def company(self, item: Any, *, full: bool) -> Json:
        """Return a company that was asked for by domain or id, or an item error."""
        asked = item if isinstance(item, Mapping) else {}
        reference = asked.get("clientReferenceId")
        company = self._company_of(asked)
        if company is None:
            return {"clientReferenceId": reference, **not_found()}
        told: dict[str, Json] = {
            "clientReferenceId": reference,
            "id": f"co-{company.index}",
            "name": company.brand,
            "domain": company.domain,
        }
        if full:
            low, high = _band(company.employees)
            known = self._world.draws("headcount", company.index).chance(0.85)
            told |= {
                "employeeCount": {
                    "exact": company.employees if known else None,
                    "min": low,
                    "max": high,
                },
                "yearFounded": company.incorporated.year,
                "industry": {"primary": company.trade, "sub": company.trade},
                "sicCodes": [{"code": company.ssic[:4], "description": company.trade}],
                "location": {"country": "Singapore", "city": "Singapore"},
                "description": f"{company.brand} works in {company.trade}.",
            }
        return told

    def _company_of(self, asked: Mapping[str, Any]) -> Company | None:
        index = str(asked.get("id", "")).removeprefix("co-")
        if index.isascii() and index.isdigit() and len(index) <= 12:
            return self._world.company(int(index)) if int(index) < self._world.size else None
        domain = asked.get("domain") or asked.get("companyDomain")
        return self._world.by_domain(str(domain or ""))


def has_email(person: Person) -> bool:
    """Say whether the vendor has an address of this person: of most it has."""
    return sum(person.email.encode()) % 10 != 0


def has_phone(person: Person) -> bool:
    """Say whether the vendor has a number of this person: of about half it has."""
    return sum(person.phone.encode()) % 2 == 0


def not_found() -> dict[str, Json]:
    """Return the item error for somebody the vendor does not know."""
    return {"error": {"code": "NOT_FOUND", "message": "No match was found"}}


def _failed(id_: str, code: str, message: str) -> dict[str, Json]:
    return {"id": id_, "error": {"code": code, "message": message}}


def _emails(person: Person) -> list[Json]:
    if not has_email(person):
        return []
    return [
        {
            "email": person.email,
            "type": "work",
            "confidence": "A+",
            "updateDate": "2026-10-01T00:00:00.000Z",
        }
    ]


def _phones(person: Person) -> list[Json]:
    if not has_phone(person):
        return []
    return [
        {
            "number": person.phone,
            "type": "mobile",
            "doNotCall": False,
            "updateDate": "2026-10-01T00:00:00.000Z",
        }
    ]


def _included(filters: Mapping[str, Any], of: str) -> Mapping[str, Any]:
    part = filters.get(of, {})
    include = part.get("include", {}) if isinstance(part, Mapping) else {}
    return include if isinstance(include, Mapping) else {}


def _band(employees: int) -> tuple[int, int]:
    for low, high in ((1, 10), (11, 50), (51, 200), (201, 500), (501, 1000), (1001, 5000)):
        if employees <= high:
            return low, high
    return 5001, 10_000
