"""Deliver due touches to a file, a webhook or a CRM, each under one delivery id.

A touch is delivered when its time has come and the counters have room for it; touches that were
delivered and await an outcome count too. It is delivered first and recorded after: a crash in
between delivers it again, under the same id. A file's line is on the disk before we return, and one
written just before a crash is not repeated. A webhook's signature covers the sender, the time and
the exact bytes.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import Protocol

from stoker.accounts.contacts import to_sendable_text
from stoker.base.errors import ConfigError, PermanentError, TransientError, UncertainError
from stoker.base.retry import compute_backoff, retry
from stoker.base.text import to_html_safe_json
from stoker.base.types import Json, TenantId, to_utc
from stoker.budgets.windows import parse_window
from stoker.crm.model import PARTNER, Cell, CrmRow, RowWrite
from stoker.crm.odoo import Odoo
from stoker.crm.rows import build_external_id
from stoker.crm.upsert import compute_digest
from stoker.http.api_client import StatusMeaning, VendorApi
from stoker.http.client import HttpClient
from stoker.touches.export import format_summary, touch_to_json
from stoker.touches.model import Delivery, Touch
from stoker.touches.queue import build_delivery_id, format_week, get_limits, list_pending
from stoker.touches.service import TouchService

MAX_TAIL_BYTES = 64_000  # bytes

DEADLINE = timedelta(seconds=20)

MAX_BYTES = 64_000  # of an answer that is not read

SIGNATURE_HEADER, DELIVERY_HEADER = "stoker-signature", "stoker-delivery"

MIN_SECRET_LENGTH = 16  # characters; a shorter one could be tried out

_NOT_FOUND = StatusMeaning(ConfigError, "is not there; check touches.webhook_url")

_BAD_SIGNATURE = StatusMeaning(
    ConfigError, "refuses our signature; check keys.webhook on both sides"
)

_STATUS_MEANINGS = {401: _BAD_SIGNATURE, 403: _BAD_SIGNATURE, 404: _NOT_FOUND, 410: _NOT_FOUND}

ACTIVITY = "mail.activity"

_PARTNERS = "base.model_res_partner"

_TODO = "mail.mail_activity_data_todo"

MAX_ATTEMPTS = 3

MAX_WAIT = timedelta(seconds=30)  # a channel that asks for more is tried in a later run


class Channel(Protocol):
    """How touches leave. Delivering under the same id again is harmless."""

    @property
    def name(self) -> str: ...

    async def deliver(self, delivery: str, touch: Touch, *, now: datetime) -> None:
        """Deliver one touch.

        Raises TransientError when later may work, PermanentError when this touch is refused for
        good, ConfigError when nothing can leave this way as things are set.
        """
        ...


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
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise ConfigError(
                f"{self._path} cannot be written ({error.strerror}); change touches.file"
            ) from error
        try:
            end = os.fstat(file).st_size
            size = min(end, self._tail_bytes)
            if size and delivery in _parse_delivery_ids(os.pread(file, size, end - size)):
                _sync(file)  # the writer may have died before it was on the disk
                return
            # What a crash left of a line must not swallow this one.
            torn = end and os.pread(file, 1, end - 1) != b"\n"
            whole = b"\n" + line if torn else line
            if os.write(file, whole) < len(whole):
                raise OSError(None, "no room for a whole line")
            _sync(file)
        except OSError as error:
            raise TransientError(
                f"{self._path} did not take a line ({error.strerror}); free some room"
            ) from error
        finally:
            os.close(file)


def _sync(file: int) -> None:
    if stat.S_ISREG(os.fstat(file).st_mode):  # a pipe or a device has no disk to reach
        os.fsync(file)


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


class WebhookChannel:
    """Touches as signed deliveries to a tenant's webhook. `secret` signs them and never travels."""

    name = "webhook"

    def __init__(
        self,
        http: HttpClient,
        *,
        tenant: TenantId,
        url: str,
        secret: str,
        deadline: timedelta = DEADLINE,
    ) -> None:
        if len(secret) < MIN_SECRET_LENGTH:
            raise ConfigError(
                f"the secret of a webhook has at least {MIN_SECRET_LENGTH} characters; "
                "set a longer one in keys.webhook"
            )
        self._tenant = tenant
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

    async def deliver(self, delivery: str, touch: Touch, *, now: datetime) -> None:
        content = build_payload(self._tenant, delivery, touch)
        body = json.dumps(content, allow_nan=False, separators=(",", ":")).encode()
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


class CrmChannel:
    """Touches as activities in a tenant's CRM; `user` is the external id of who gets them."""

    name = "odoo"

    def __init__(self, crm: Odoo, *, tenant: TenantId, user: str = "") -> None:
        self._crm = crm
        self._tenant = tenant
        self._user = user

    async def deliver(self, delivery: str, touch: Touch, *, now: datetime) -> None:
        partner = await self._find_or_create_partner(touch)
        activity = build_activity_write(
            self._tenant, delivery, touch, partner=partner, user=self._user
        )
        await self._write_row(activity)

    async def _find_or_create_partner(self, touch: Touch) -> int:
        row = build_partner_row(self._tenant, touch)
        there = (await self._crm.find_records([row], known={})).get(row.external_id)
        return there.id if there is not None else await self._write_row(build_partner_write(row))

    async def _write_row(self, write: RowWrite) -> int:
        result = (await self._crm.upsert([write]))[write.row.external_id]
        if result.id is not None:
            return result.id
        if result.is_retryable:
            raise TransientError(result.reason, retry_after=result.retry_after)
        raise PermanentError(f"the CRM refuses it: {result.reason}")


def build_payload(tenant: TenantId, delivery: str, touch: Touch) -> dict[str, Json]:
    """Return a touch as programs get it."""
    return {"kind": "touch", "delivery": delivery, "tenant": tenant, **touch_to_json(touch)}


def build_partner_row(tenant: TenantId, touch: Touch) -> CrmRow:
    """Return the partner of an activity; an existing partner with that website is used."""
    return CrmRow(
        model=PARTNER,
        external_id=build_external_id(tenant, "profile", touch.url),
        values={},
        on_create={"name": to_sendable_text(touch.name) or touch.url, "website": touch.url},
        match_by=("website", touch.url),
        is_unique=True,
    )


def build_partner_write(row: CrmRow) -> RowWrite:
    """Return what makes that partner."""
    return RowWrite(row=row, cells=row.on_create, digest=compute_digest(row), before={}, intent={})


def build_activity_write(
    tenant: TenantId, delivery: str, touch: Touch, *, partner: int, user: str = ""
) -> RowWrite:
    """Return what makes a touch an activity on a partner's record, for a user if one is named."""
    wait = "never touched" if touch.days_since is None else f"{touch.days_since} days since"
    reason = f", {touch.reason}" if touch.reason else ""
    cells: dict[str, Cell] = {
        "summary": to_sendable_text(format_summary(touch)),
        "note": f"<p>{escape(to_sendable_text(touch.url))}</p><p>{wait}{reason}; due "
        f"{touch.at:%H:%M} UTC</p>",
        "date_deadline": touch.day.isoformat(),
        "res_model_id/id": _PARTNERS,
        "res_id": str(partner),
        "activity_type_id/id": _TODO,
    }
    if user:
        cells["user_id/id"] = user
    row = CrmRow(
        model=ACTIVITY, external_id=build_external_id(tenant, "touch", delivery), values={}
    )
    return RowWrite(row=row, cells=cells, digest=compute_digest(row), before={}, intent={})


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryResult:
    """What became of the touches that were due. Reasons are messages, by url."""

    delivered: tuple[Touch, ...]
    refused: Mapping[str, str]
    postponed: Mapping[str, str]
    waiting: int  # due, and not tried
    waiting_reason: str = ""


async def deliver_due(
    service: TouchService,
    channel: Channel,
    *,
    chance: Callable[[], float],
    limit: int | None = None,
    dry: bool = False,
) -> DeliveryResult:
    """Deliver what is due now, in time order, and record each delivery.

    Dry, nothing is delivered and nothing is written but the plan. Raises ConfigError as the channel
    does; what was delivered before that is recorded.
    """
    today = await service.load_today(whole_week=False)
    now, week = service.clock.now(), format_week(today.slot.day)
    due = await service.filter_allowed(
        [
            touch
            for touch in list_pending(today.slot)
            if touch.at <= now and touch.url not in today.deliveries
        ]
    )
    room, reason = await _compute_capacity(service, now=now)
    if limit is not None and limit < room:
        room, reason = limit, f"--limit is {limit}"
    delivered: list[Touch] = []
    refused: dict[str, str] = {}
    postponed: dict[str, str] = {}
    for touch in due[:room]:
        if dry:
            delivered.append(touch)
            continue
        error = await _deliver_with_retry(service, channel, touch, chance)
        if isinstance(error, TransientError):
            postponed[touch.url] = str(error)
            continue
        refusal = str(error) if error else ""
        delivery = Delivery(
            url=touch.url, day=touch.day, channel=channel.name, at=now, refused=refusal
        )
        await service.store.record_delivery(week, delivery)
        if error:
            refused[touch.url] = refusal
        else:
            delivered.append(touch)
    waiting = max(len(due) - room, 0)
    return DeliveryResult(
        delivered=tuple(delivered),
        refused=refused,
        postponed=postponed,
        waiting=waiting,
        waiting_reason=reason if waiting else "",
    )


async def _compute_capacity(service: TouchService, *, now: datetime) -> tuple[int, str]:
    """Return how many more may be delivered now, and why no more."""
    counters = await service.read_counters(now)
    capacities = []
    for kind, limit in get_limits(service.rule).items():
        count = counters[kind]
        out = await service.store.count_awaiting_outcome(since=parse_window(count.name).start)
        free = max(limit - count.used - out, 0)
        capacities.append(
            (free, f"the limit is {limit} per {kind}: {count.used} done, {out} awaiting an outcome")
        )
    return min(capacities, key=lambda each: each[0])


async def _deliver_with_retry(
    service: TouchService, channel: Channel, touch: Touch, chance: Callable[[], float]
) -> PermanentError | TransientError | None:
    """Deliver a touch, again where that may help; return why it was not delivered."""
    delivery = build_delivery_id(service.tenant, touch)
    try:
        await retry(
            lambda: channel.deliver(delivery, touch, now=service.clock.now()),
            delays=(compute_backoff(n, chance=chance()) for n in range(1, MAX_ATTEMPTS)),
            sleep=service.clock.sleep,
            on=(TransientError,),
            max_wait=MAX_WAIT,
        )
    except (PermanentError, TransientError) as error:
        return error
    return None
