"""Why something was not done, or not in time: the closed list of codes, with a sentence for each.

Codes are for filters and dashboards, sentences for people. The numbers behind a refusal are stored
beside its code, in `Refusal` and in the ledger.
"""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """One code with its sentence."""

    message: str

    def __new__(cls, code: str, sentence: str) -> Reason:
        """Make a code that carries its sentence."""
        reason = str.__new__(cls, code)
        reason._value_ = code
        reason.message = sentence
        return reason

    # Chosen or not
    FRESH_ENOUGH = "FRESH_ENOUGH", "what we know of this account is recent enough for its tier"
    LOWER_VALUE = "LOWER_VALUE", "the budget went to accounts of higher value"
    DUPLICATE_PULL_JOB_ID = "DUPLICATE_PULL_JOB_ID", "the same pull was requested before"
    COOLING_DOWN = "COOLING_DOWN", "it failed recently and is not retried yet"
    PAUSED = "PAUSED", "an operator stopped it; allow it again with: stoker resume"

    # How much: not in this window
    CAP_TENANT_HOUR = "CAP_TENANT_HOUR", "this hour's cap of the tenant is used up"
    CAP_TENANT_DAY = "CAP_TENANT_DAY", "today's cap of the tenant is used up"
    CAP_TENANT_WEEK = "CAP_TENANT_WEEK", "this week's cap of the tenant is used up"
    CAP_TENANT_RUN = "CAP_TENANT_RUN", "the run's cap of the tenant is used up"
    CAP_CONNECTOR_HOUR = "CAP_CONNECTOR_HOUR", "this hour's cap of the connector is used up"
    CAP_CONNECTOR_DAY = "CAP_CONNECTOR_DAY", "today's cap of the connector is used up"
    CAP_CONNECTOR_WEEK = "CAP_CONNECTOR_WEEK", "this week's cap of the connector is used up"
    CAP_CONNECTOR_RUN = "CAP_CONNECTOR_RUN", "the run's cap of the connector is used up"
    CAP_SHARED_HOUR = "CAP_SHARED_HOUR", "this hour's cap that all tenants share is used up"
    CAP_SHARED_DAY = "CAP_SHARED_DAY", "today's cap that all tenants share is used up"
    CAP_SHARED_WEEK = "CAP_SHARED_WEEK", "this week's cap that all tenants share is used up"
    CAP_SHARED_RUN = "CAP_SHARED_RUN", "the run's cap that all tenants share is used up"

    # After the fact: counted all the same
    SETTLED_LATE = "SETTLED_LATE", "its cost became known after its reservation was released"

    # How fast: later
    RATE_LIMIT = "RATE_LIMIT", "the vendor's rate limit is reached; it is called later"

    # Not at all, until something changes
    STOPPED = "STOPPED", "spending is stopped; allow it again with: stoker resume"
    BUDGET_UNREADABLE = (
        "BUDGET_UNREADABLE",
        "the store could not be read, so nothing was spent; check it with: stoker doctor",
    )
    CLOCK_WENT_BACK = "CLOCK_WENT_BACK", "the clock is earlier than what was already recorded"

    # Files of the register that are not read
    RELEASE_UNKNOWN = "RELEASE_UNKNOWN", "the file's release of the register is not known"
    RELEASE_TO_COME = "RELEASE_TO_COME", "its release date is in the future; the date must be wrong"
    RELEASE_PASSED = "RELEASE_PASSED", "a later release was imported; rows would become older"
    PART_SHRUNK = "PART_SHRUNK", "it has less than half its earlier rows; it may be truncated"
    PART_NOT_PUBLISHED = "PART_NOT_PUBLISHED", "the register's publisher does not offer this part"
