"""Match a company against a tenant's ideal customer profile, and say why.

A rule names industries, size, age and whether the company is live. An unknown value is no reason to
refuse: registers do not list sizes, so an unknown size matches. An account that a person imported
matches whatever the rule, as long as it is live.
"""

from __future__ import annotations

from dataclasses import dataclass

from stoker.accounts.model import Company
from stoker.base.errors import ConfigError
from stoker.base.types import Json

EARLIEST_YEAR, LATEST_YEAR = 1800, 2100


@dataclass(frozen=True, slots=True, kw_only=True)
class IcpRule:
    """Whom a tenant wants to sell to: its ideal customer profile."""

    name: str = "default"
    industries: tuple[str, ...] = ("58", "61", "62", "63")  # prefixes of SSIC codes: technology
    employees: tuple[int, int] = (2, 100)
    years: tuple[int, int] = (2000, 2025)  # of incorporation

    def __post_init__(self) -> None:
        for prefix in self.industries:
            if not (prefix.isascii() and prefix.isdigit() and 1 <= len(prefix) <= 5):
                raise ConfigError(
                    f"{prefix!r} is no SSIC code; codes are 1 to 5 digits, e.g. 62 or 62011"
                )
        if not 0 <= self.employees[0] <= self.employees[1]:
            raise ConfigError(
                f"employees {_format_span(self.employees)}: give the smaller number first"
            )
        if not EARLIEST_YEAR <= self.years[0] <= self.years[1] <= LATEST_YEAR:
            raise ConfigError(
                f"years {_format_span(self.years)}: give two years from {EARLIEST_YEAR} to "
                f"{LATEST_YEAR}, the earlier first"
            )

    def as_json(self) -> dict[str, Json]:
        """Return the rule as manifests store it and programs read it."""
        return {
            "rule": self.name,
            "industries": list(self.industries),
            "employees": list(self.employees),
            "years": list(self.years),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class IcpMatch:
    """Whether a company matches, and why, or which part of the rule it fails."""

    fits: bool
    reason: str


def match_icp(company: Company, rule: IcpRule) -> IcpMatch:
    """Match a company against a rule. The first part it fails is the reason."""
    if not company.live:
        return IcpMatch(fits=False, reason="it is no longer active in the registry")
    if company.is_given:
        return IcpMatch(fits=True, reason="imported as one of your accounts")
    if rule.industries and not company.ssic.startswith(rule.industries):
        return IcpMatch(
            fits=False,
            reason=f"industry {company.ssic or 'unknown'} is none of {', '.join(rule.industries)}",
        )
    if company.year is not None and not rule.years[0] <= company.year <= rule.years[1]:
        return IcpMatch(
            fits=False, reason=f"incorporated {company.year}, wanted {_format_span(rule.years)}"
        )
    if company.employees is not None and not (
        rule.employees[0] <= company.employees <= rule.employees[1]
    ):
        return IcpMatch(
            fits=False,
            reason=f"{company.employees} employees, wanted {_format_span(rule.employees)}",
        )
    known = [f"industry {company.ssic}" if company.ssic else "industry unknown"]
    known.append("year unknown" if company.year is None else f"incorporated {company.year}")
    known.append("size unknown" if company.employees is None else f"{company.employees} employees")
    return IcpMatch(fits=True, reason=", ".join(known))


def _format_span(pair: tuple[int, int]) -> str:
    return f"{pair[0]}–{pair[1]}"
