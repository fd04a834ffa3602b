"""One pull, under an id that follows from what it is.

The same account, connector and depth in the same time bucket is the same pull, however often it is
planned.
"""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime, timedelta

from stoker.accounts.model import CompanyId
from stoker.base.errors import ConfigError
from stoker.base.types import Depth, PullJobId, TenantId, to_utc

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_MIN_BUCKET = timedelta(minutes=1)


def to_time_bucket(at: datetime, *, bucket: timedelta) -> datetime:
    """Return the start of the stretch of time, counted from 1970, that this moment falls in."""
    if bucket < _MIN_BUCKET:
        raise ConfigError(f"pulls are the same within a minute or longer, not {bucket}")
    at = to_utc(at, what="the time of a pull")
    return at - (at - _EPOCH) % bucket


def build_pull_job_id(
    *,
    tenant: TenantId,
    account: CompanyId,
    connector: str,
    depth: Depth,
    at: datetime,
    bucket: timedelta,
) -> PullJobId:
    """Return the id of a pull: the same for the same pull in the same stretch of time, always."""
    start = to_time_bucket(at, bucket=bucket)
    # As JSON, so that no two different pulls can read the same.
    named = json.dumps([tenant, account, connector, depth.value, start.isoformat()])
    return PullJobId(hashlib.sha256(named.encode()).hexdigest()[:32])
