"""A tenant's own webhook: something of ours is delivered to it, signed, under an id of its own.

The signature says who sent it and when, over the very bytes that were sent. Whoever receives it
knows a delivery by its id, so the same one may be sent again. What is delivered, and how often it
is tried, is not known here.
"""

from __future__ import annotations

import hmac
import json
import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from hashlib import sha256

from stoker.connectors.http import Http
from stoker.connectors.vendor import Failure, Vendor
from stoker.core.model import Json, in_utc
from stoker.errors import ConfigError, PermanentError, TransientError, UncertainError

DEADLINE = timedelta(seconds=20)
MOST_BYTES = 64_000  # of an answer nobody reads
SIGNATURE, DELIVERY = "stoker-signature", "stoker-delivery"
SHORTEST_SECRET = 16  # characters; a shorter one could be tried out
_ID = re.compile(r"[A-Za-z0-9_.-]{1,200}")
_GONE = Failure(ConfigError, "is not there; check touches.webhook_url")
_REFUSES = Failure(ConfigError, "refuses our signature; check keys.webhook on both sides")
_FAILURES = {401: _REFUSES, 403: _REFUSES, 404: _GONE, 410: _GONE}


class Webhook:
    """Where a tenant takes deliveries in. `secret` signs them and never travels."""

    def __init__(
        self, http: Http, *, url: str, secret: str, deadline: timedelta = DEADLINE
    ) -> None:
        if len(secret) < SHORTEST_SECRET:
            raise ConfigError(
                f"the secret of a webhook has at least {SHORTEST_SECRET} characters; "
                "set a longer one in keys.webhook"
            )
        self._secret = secret
        self._there = Vendor(
            http,
            name="the webhook",
            base_url=url,
            headers={},
            deadline=deadline,
            failures=_FAILURES,
            most_bytes=MOST_BYTES,
        )

    async def deliver(self, delivery: str, content: Mapping[str, Json], *, now: datetime) -> None:
        """Hand something over; any answer that says yes will do.

        Raises TransientError when it should be sent again, under the same id: also when nobody
        knows whether it arrived. PermanentError: this delivery is refused for good. ConfigError:
        nothing can be delivered there as things are set.
        """
        if not _ID.fullmatch(delivery):
            raise PermanentError("a delivery's id is one plain word; nothing was sent")
        try:
            body = json.dumps(content, allow_nan=False, separators=(",", ":")).encode()
        except (ValueError, TypeError, RecursionError) as error:
            raise PermanentError("this cannot be delivered as JSON; nothing was sent") from error
        headers = {
            "content-type": "application/json",
            DELIVERY: delivery,
            SIGNATURE: signature(self._secret, delivery, body, at=now),
        }
        try:
            await self._there.send("POST", "", body=body, headers=headers)
        except UncertainError as error:
            raise TransientError(f"{error}; it is sent again under the same id") from error


def signature(secret: str, delivery: str, body: bytes, *, at: datetime) -> str:
    """Return how a delivery is signed: `t=SECONDS,v1=HEX`, HMAC-SHA256 over `SECONDS.ID.BODY`."""
    seconds = int(in_utc(at).timestamp())
    signed = f"{seconds}.{delivery}.".encode() + body
    return f"t={seconds},v1={hmac.new(secret.encode(), signed, sha256).hexdigest()}"
