"""Deliver to a tenant's signed webhook, or append lines to a JSON file.

The signature covers the sender, the time and the exact bytes. The receiver knows a delivery by its
id, so the same one may be sent again. A line is on the disk before we return; one written just
before a crash is among the last lines and is not repeated.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import os
import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path

from stoker.base.errors import ConfigError, PermanentError, TransientError, UncertainError
from stoker.base.text import to_html_safe_json
from stoker.base.types import Json, TenantId, to_utc
from stoker.http.api_client import StatusMeaning, VendorApi
from stoker.http.client import HttpClient
from stoker.touches.export import build_payload
from stoker.touches.model import Touch

MAX_TAIL_BYTES = 64_000  # bytes


class FileChannel:
    """Touches as lines at the end of a file; one that stands in its last lines is not repeated."""

    name = "file"

    def __init__(self, path: Path, *, tenant: TenantId, look_back: int = MAX_TAIL_BYTES) -> None:
        self._path = path
        self._tenant = tenant
        self._tail_bytes = look_back

    async def deliver(self, delivery: str, touch: Touch, *, now: datetime) -> None:
        content = {**build_payload(self._tenant, delivery, touch), "left_at": now.isoformat()}
        line = to_html_safe_json(content).encode() + b"\n"
        await asyncio.to_thread(self._append_line, delivery, line)

    def _append_line(self, delivery: str, line: bytes) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise ConfigError(
                f"{self._path} cannot be written ({error.strerror}); change touches.file"
            ) from error
        try:
            end = os.fstat(file).st_size
            enrichment = min(end, self._tail_bytes)
            if enrichment and delivery in _parse_delivery_ids(
                os.pread(file, enrichment, end - enrichment)
            ):
                os.fsync(file)  # the writer may have died before it was on the disk
                return
            # What a crash left of a line must not swallow this one.
            torn = end and os.pread(file, 1, end - 1) != b"\n"
            whole = b"\n" + line if torn else line
            if os.write(file, whole) < len(whole):
                raise OSError(None, "no room for a whole line")
            os.fsync(file)
        except OSError as error:
            raise TransientError(
                f"{self._path} did not take a line ({error.strerror}); free some room"
            ) from error
        finally:
            os.close(file)


def _parse_delivery_ids(tail: bytes) -> set[str]:
    """Return what the whole lines at the end of a file delivered."""
    found = set()
    for line in tail.split(b"\n")[:-1]:
        try:
            record = json.loads(line)
        except ValueError:
            continue  # the first may be cut off, another torn
        if isinstance(record, dict) and isinstance(record.get("delivery"), str):
            found.add(record["delivery"])
    return found


DEADLINE = timedelta(seconds=20)

MAX_BYTES = 64_000  # of an answer that is not read

SIGNATURE_HEADER, DELIVERY_HEADER = "stoker-signature", "stoker-delivery"

MIN_SECRET_LENGTH = 16  # characters; a shorter one could be tried out

_DELIVERY_ID = re.compile(r"[A-Za-z0-9_.-]{1,200}")

_NOT_FOUND = StatusMeaning(ConfigError, "is not there; check touches.webhook_url")

_BAD_SIGNATURE = StatusMeaning(
    ConfigError, "refuses our signature; check keys.webhook on both sides"
)

_STATUS_MEANINGS = {401: _BAD_SIGNATURE, 403: _BAD_SIGNATURE, 404: _NOT_FOUND, 410: _NOT_FOUND}


class Webhook:
    """Where a tenant takes deliveries in. `secret` signs them and never travels."""

    def __init__(
        self, http: HttpClient, *, url: str, secret: str, deadline: timedelta = DEADLINE
    ) -> None:
        if len(secret) < MIN_SECRET_LENGTH:
            raise ConfigError(
                f"the secret of a webhook has at least {MIN_SECRET_LENGTH} characters; "
                "set a longer one in keys.webhook"
            )
        self._secret = secret
        self._client = VendorApi(
            http,
            name="the webhook",
            base_url=url,
            headers={},
            deadline=deadline,
            failures=_STATUS_MEANINGS,
            most_bytes=MAX_BYTES,
        )

    async def deliver(self, delivery: str, content: Mapping[str, Json], *, now: datetime) -> None:
        """Send a delivery; any success status will do.

        Raises TransientError when it should be sent again under the same id, also when it is
        unknown whether it arrived. PermanentError: this delivery is refused for good. ConfigError:
        nothing can be delivered with these settings.
        """
        if not _DELIVERY_ID.fullmatch(delivery):
            raise PermanentError("a delivery's id is one plain word; nothing was sent")
        try:
            body = json.dumps(content, allow_nan=False, separators=(",", ":")).encode()
        except (ValueError, TypeError, RecursionError) as error:
            raise PermanentError("this cannot be delivered as JSON; nothing was sent") from error
        headers = {
            "content-type": "application/json",
            DELIVERY_HEADER: delivery,
            SIGNATURE_HEADER: sign_delivery(self._secret, delivery, body, at=now),
        }
        try:
            await self._client.send("POST", "", body=body, headers=headers)
        except UncertainError as error:
            raise TransientError(f"{error}; it is sent again under the same id") from error


def sign_delivery(secret: str, delivery: str, body: bytes, *, at: datetime) -> str:
    """Return how a delivery is signed: `t=SECONDS,v1=HEX`, HMAC-SHA256 over `SECONDS.ID.BODY`."""
    seconds = int(to_utc(at).timestamp())
    signed = f"{seconds}.{delivery}.".encode() + body
    return f"t={seconds},v1={hmac.new(secret.encode(), signed, sha256).hexdigest()}"
