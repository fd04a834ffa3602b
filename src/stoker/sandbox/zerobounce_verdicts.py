"""What the make-believe verifier says of an address, and what that costs.

The vendor's fixed test addresses, then people of the world, then everybody else by chance.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from stoker.sandbox.world import World

_ADDRESS = re.compile(r"[^@\s]{1,64}@[^@\s.]+(?:\.[^@\s.]+)+")
_ROLES = ("info", "sales", "hello", "contact", "enquiry", "admin", "support", "hr")


@dataclass(frozen=True, slots=True)
class Verdict:
    """A status with its closer reason; an unknown one is never charged."""

    status: str
    sub_status: str = ""
    price: int = 1


def _free(status: str, sub_status: str = "") -> Verdict:
    return Verdict(status, sub_status, 0)


TEST_TABLE: Mapping[str, Verdict] = {
    "disposable": _free("do_not_mail", "disposable"),
    "invalid": _free("invalid", "mailbox_not_found"),
    "valid": _free("valid"),
    "toxic": _free("do_not_mail", "toxic"),
    "donotmail": _free("do_not_mail", "role_based"),
    "spamtrap": _free("spamtrap"),
    "abuse": _free("abuse"),
    "unknown": _free("unknown", "mail_server_temporary_error"),
    "catch_all": _free("catch-all"),
    "antispam_system": _free("unknown", "antispam_system"),
    "does_not_accept_mail": _free("invalid", "does_not_accept_mail"),
    "exception_occurred": _free("unknown", "exception_occurred"),
    "failed_smtp_connection": _free("unknown", "failed_smtp_connection"),
    "failed_syntax_check": _free("invalid", "failed_syntax_check"),
    "forcible_disconnect": _free("unknown", "forcible_disconnect"),
    "global_suppression": _free("do_not_mail", "global_suppression"),
    "greylisted": _free("unknown", "greylisted"),
    "leading_period_removed": _free("valid", "leading_period_removed"),
    "mail_server_did_not_respond": _free("unknown", "mail_server_did_not_respond"),
    "mail_server_temporary_error": _free("unknown", "mail_server_temporary_error"),
    "mailbox_quota_exceeded": _free("invalid", "mailbox_quota_exceeded"),
    "mailbox_not_found": _free("invalid", "mailbox_not_found"),
    "no_dns_entries": _free("invalid", "no_dns_entries"),
    "possible_trap": _free("do_not_mail", "possible_trap"),
    "possible_typo": _free("invalid", "possible_typo"),
    "role_based": _free("do_not_mail", "role_based"),
    "role_based_catch_all": _free("do_not_mail", "role_based_catch_all"),
    "timeout_exceeded": _free("unknown", "timeout_exceeded"),
    "unroutable_ip_address": _free("invalid", "unroutable_ip_address"),
    "free_email": _free("valid"),
    "alias_address": _free("valid", "alias_address"),
    "alternate": _free("valid", "alternate"),
    "accept_all": _free("valid", "accept_all"),
}
_OF_PEOPLE = (
    (Verdict("valid"), 86),
    (Verdict("invalid", "mailbox_not_found"), 5),
    (Verdict("catch-all"), 5),
    (_free("unknown", "greylisted"), 3),
    (Verdict("do_not_mail", "ai_agent_mailbox"), 1),
)
_OF_OTHERS = (
    (Verdict("invalid", "mailbox_not_found"), 40),
    (Verdict("valid"), 30),
    (Verdict("catch-all"), 15),
    (_free("unknown", "timeout_exceeded"), 10),
    (Verdict("abuse"), 2),
    (Verdict("spamtrap"), 1),
    (Verdict("do_not_mail", "disposable"), 2),
)


def verdict_of(world: World, email: str) -> Verdict:
    """Return what is said of an address; letters in upper case make no difference."""
    wanted = email.strip().lower()
    account, _, domain = wanted.rpartition("@")
    if domain == "example.com" and account in TEST_TABLE:
        return TEST_TABLE[account]
    if len(wanted) > 254 or not _ADDRESS.fullmatch(wanted):
        return Verdict("invalid", "failed_syntax_check")
    company = world.by_domain(domain)
    if company is None and domain.endswith(".test"):
        return Verdict("invalid", "no_dns_entries")
    draws = world.draws("verdict", wanted)
    if world.by_email(wanted) is not None:
        if account in _ROLES:
            return Verdict("do_not_mail", "role_based") if draws.chance(0.5) else Verdict("valid")
        return draws.weighted(_OF_PEOPLE)
    if company is not None:
        return Verdict("invalid", "mailbox_not_found")
    return draws.weighted(_OF_OTHERS)
