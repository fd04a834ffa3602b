"""Filter ledger entries by kind, reason, account, connector, run and time.

An entry names what it is about in its subject or in its data, depending on its kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from stoker.ledger.chain import LedgerEntry

ANY_CONNECTOR = "*"  # the subject of a stop that names no connector


class EntryKind(StrEnum):
    """The kinds of entries about money. Later statuses of a reservation have their own names."""

    RESERVED = "RESERVED"
    REFUSED = "REFUSED"
    SENT = "SENT"
    SETTLED = "SETTLED"
    RELEASED = "RELEASED"
    EXPIRED = "EXPIRED"
    UNCERTAIN = "UNCERTAIN"
    CAP_CHANGED = "CAP_CHANGED"
    CAP_RAISED = "CAP_RAISED"
    STOPPED = "STOPPED"
    RESUMED = "RESUMED"
    CHOSEN = "CHOSEN"
    NOT_CHOSEN = "NOT_CHOSEN"


_STOP_KINDS = frozenset({EntryKind.STOPPED.value, EntryKind.RESUMED.value})

_CAP_KINDS = frozenset({EntryKind.CAP_CHANGED.value, EntryKind.CAP_RAISED.value})


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerFilter:
    """What must be true of an entry; what is None does not matter."""

    kind: str | None = None
    reason: str | None = None  # a code, or words of the reason
    code: str | None = None
    text: str | None = None  # words of the reason
    account: str | None = None
    connector: str | None = None
    run: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    def matches(self, entry: LedgerEntry) -> bool:
        """Return whether an entry was asked for. Moments are in [since, until)."""
        return (
            (self.kind is None or entry.kind == self.kind.upper())
            and (self.since is None or entry.at >= self.since)
            and (self.until is None or entry.at < self.until)
            and (self.account is None or get_data_text(entry, "account") == self.account)
            and (self.run is None or get_data_text(entry, "run") == self.run)
            and (self.connector is None or _get_connector(entry) == self.connector)
            and (self.code is None or _has_code(entry, self.code))
            and (self.text is None or _has_words(entry, self.text))
            and (
                self.reason is None
                or _has_code(entry, self.reason)
                or _has_words(entry, self.reason)
            )
        )


def get_data_text(entry: LedgerEntry, name: str) -> str:
    """Return the text under a name in an entry's data; empty when there is none."""
    value = entry.data.get(name)
    return "" if value is None else str(value)


def _get_connector(entry: LedgerEntry) -> str:
    if entry.kind in _STOP_KINDS:
        return "" if entry.subject == ANY_CONNECTOR else entry.subject
    if entry.kind in _CAP_KINDS:
        return entry.subject.split("/")[1] if entry.subject.count("/") == 3 else ""
    return get_data_text(entry, "connector")


def _has_code(entry: LedgerEntry, code: str) -> bool:
    return get_data_text(entry, "code") == code.upper()


def _has_words(entry: LedgerEntry, words: str) -> bool:
    return words.casefold() in entry.reason.casefold()
