"""What the gate says to somebody who wants to spend, given everything that stands at that moment.

Whether a key was used before, which caps apply, whether the clock, a stop or a full cap says no:
asked here, in one order, by every store. Writing the answer down is the stores' part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from stoker.core.budget import Charge, Place, Refused, Request, Used, charges, clock_refusal
from stoker.core.budget_windows import ResetRule
from stoker.core.caps import Cap, CapChange, Scope, connector_name
from stoker.core.default_caps import added_caps
from stoker.core.holds import Hold
from stoker.core.keeping import kept_text
from stoker.core.model import in_utc
from stoker.errors import ConfigError, ConflictError, PermanentError

LONGEST_NAME = 500  # characters; keys of every database can be this long

ALL = ""  # stands for every connector


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What holds for a tenant at this moment, apart from how full its caps are."""

    latest: datetime | None = None  # the moment of the last ledger entry
    changes: Mapping[str, CapChange] = field(default_factory=dict)
    stops: Mapping[str, str] = field(default_factory=dict)  # connector to reason
    opened: Mapping[Place, Used] = field(default_factory=dict)  # windows near this moment

    def moment(self, now: datetime) -> datetime:
        """Return the time as money counts it: never earlier than what is already written."""
        moment = in_utc(now)
        return moment if self.latest is None else max(moment, self.latest)

    def lease_end(self, until: datetime, *, now: datetime) -> datetime:
        """Return when a lease that is to end at `until` ends, as money counts time.

        It is as long as was asked. Otherwise, with a clock that was set back a little, a promise
        would be taken for one of a silent owner the moment it is given.
        """
        return in_utc(until) + (self.moment(now) - in_utc(now))


def kept_name(text: str, *, what: str) -> str:
    """Return a name that every store can keep, and find again by."""
    if len(kept_text(text, what=what)) > LONGEST_NAME:
        raise PermanentError(
            f"{what} is longer than {LONGEST_NAME} characters; shorten it, nothing was written"
        )
    return text


def kept_owner(owner: str) -> str:
    """Return the name of whoever holds something; it must be somebody."""
    if not owner:
        raise ConfigError("a lease needs an owner's name; nothing was written")
    return kept_name(owner, what="an owner")


def kept_request(request: Request) -> Request:
    """Return the request, every text of which a store can keep."""
    kept_name(request.run or "", what="a run's name")
    kept_name(request.account or "", what="an account")
    return request


def kept_change(change: CapChange, *, shared: bool) -> CapChange:
    """Return what was said about a cap, as stores give it back.

    Raises ConfigError when it speaks of a cap that is not the speaker's to change.
    """
    kept_name(change.cap, what="a cap")
    if change.cap.startswith(f"{Scope.CONNECTOR}/") != shared:
        whose = "its tenant" if shared else "an operator"
        raise ConfigError(f"{change.cap!r} can only be changed by {whose}; nothing was changed")
    until = change.raised_until
    return replace(change, raised_until=until and in_utc(until, what="raised_until"))


def kept_stop(connector: str, *, reason: str = "") -> str:
    """Return the connector a stop is for, or nothing for all of them."""
    kept_text(reason, what="a reason")
    return connector_name(connector) if connector else ALL


def asked_again(hold: Hold, request: Request) -> Hold:
    """Return the promise a key was already good for; with other inputs it is a conflict."""
    if hold.fingerprint != request.fingerprint:
        raise ConflictError(
            f"{request.key} was used for another request; a new attempt needs a key of its own"
        )
    return hold


def considered(
    request: Request, caps: Sequence[Cap], standing: Standing, *, reset: ResetRule, now: datetime
) -> tuple[Charge, ...] | Refused:
    """Return what a new request must be charged, or who says no whatever room there is.

    Caps that people added count beside those given, also when they were added since. Raises
    ConfigError when a unit asked for has no cap.
    """
    moment = standing.moment(now)
    together = [*caps, *added_caps(caps, standing.changes)]
    wanted = charges(
        request, together, standing.changes, reset=reset, now=moment, opened=standing.opened
    )
    refused = clock_refusal(in_utc(now), latest=standing.latest)
    return refused or stop_refusal(request.connector, standing.stops) or tuple(wanted)


def stop_refusal(connector: str, stops: Mapping[str, str]) -> Refused | None:
    """Return a refusal when somebody has stopped this connector, or all of them."""
    for stopped in (ALL, connector):
        if stopped in stops:
            what = stopped or "spending"
            why = stops[stopped] or "no reason was given"
            return Refused(reason="STOPPED", sentence=f"{what} is stopped: {why}")
    return None
