"""The tables of reservations, totals, changed caps and stops, of a tenant and shared by all.

Totals are a cache of what the ledger says, written in the same transaction; their checks are the
last line behind it. What tenants share tells nothing of any one of them, and only operators write
stops and caps for all.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from stoker.base.errors import ConfigError
from stoker.base.types import Json, to_utc
from stoker.budgets.caps import (
    CapChange,
    Scope,
    get_cap_unit,
    validate_amount,
    validate_connector,
    validate_unit,
)
from stoker.budgets.charges import ALL_CONNECTORS, Charge, SpendRequest, Totals
from stoker.budgets.model import CapUsage, Stop
from stoker.budgets.reservations import Reservation, ReservationStatus
from stoker.db.codec import validate_name, validate_text
from stoker.db.database import CONFLICT_SQLSTATE, from_db_time, to_db_time
from stoker.db.policies import WRITTEN_BY_OPERATORS
from stoker.db.table import (
    INT,
    KEEP_IF_NULL,
    ORDERED_TEXT,
    TEXT,
    TIME,
    Column,
    Index,
    Script,
    Table,
    enum,
    json_of,
)

COUNTED_SINCE = 15  # the step with which rows of stops and caps are counted


def _require(kind: type, value: Any) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"{type(value).__name__} where {kind.__name__} is expected")
    return value


def _parse_amounts(found: Any) -> dict[str, int]:
    return {
        validate_unit(name): validate_amount(number)
        for name, number in _require(dict, found).items()
    }


def _to_charges_json(charges: tuple[Charge, ...]) -> Json:
    return [
        [
            charge.cap,
            charge.shared,
            charge.window,
            charge.amount,
            charge.limit,
            to_db_time(charge.ends_at),
            charge.reason,
        ]
        for charge in charges
    ]


def _parse_charge(found: Any) -> Charge:
    cap, shared, window, amount, limit, ends_at, reason = _require(list, found)
    get_cap_unit(cap)  # found out now, before anything is counted
    return Charge(
        cap=cap,
        shared=_require(bool, shared),
        window=_require(str, window),
        amount=validate_amount(amount),
        limit=validate_amount(limit),
        ends_at=from_db_time(ends_at),
        reason=reason,
    )


def _parse_charges(found: Any) -> tuple[Charge, ...]:
    return tuple(_parse_charge(charge) for charge in _require(list, found))


_AMOUNTS = json_of(dict, _parse_amounts)

# An open reservation is one without closed_at, and there are never many.
RESERVATIONS = Table(
    "holds",
    Reservation,
    Column("key", ORDERED_TEXT),
    Column("connector", TEXT),
    Column("fingerprint", TEXT),
    Column("phase", enum(ReservationStatus), field="status"),
    Column("owner", TEXT),
    Column("until_at", TIME, field="until"),
    Column("reserved_at", TIME),
    Column("closed_at", TIME, null=True),
    Column("run", TEXT, null=True),
    Column("account", TEXT, null=True),
    Column("reason", TEXT),
    Column("amounts", _AMOUNTS),
    Column("charges", json_of(_to_charges_json, _parse_charges)),
    Column("actual", _AMOUNTS),
    key=["key"],
    indexes=[
        Index("open_holds", "until_at", where="closed_at IS NULL"),
        Index("closed_holds", "closed_at", where="closed_at IS NOT NULL", since=12),
    ],
    since=4,
    what="the reservation",
    grants="SELECT, INSERT, UPDATE, DELETE",
)

# What a change of status writes; the rest stays as it was reserved.
CHANGED_COLUMNS = ("phase", "closed_at", "reason", "actual")

USAGE, SHARED_USAGE = (
    Table(
        name,
        CapUsage,
        Column("cap", ORDERED_TEXT),
        Column("window_name", ORDERED_TEXT, field="window"),
        Column("settled", INT, field="used.settled", check="settled >= 0"),
        Column("reserved", INT, field="used.reserved", check="reserved >= 0"),
        key=["cap", "window_name"],
        nested={"used": Totals},
        since=4,
        what="the total of",
        grants="SELECT, INSERT, UPDATE, DELETE",
        tenant=tenant,
        fill=50,
    )
    for name, tenant in (("budgets", True), ("shared_budgets", False))
)

CAP_CHANGES, SHARED_CAP_CHANGES = (
    Table(
        name,
        CapChange,
        Column("cap", ORDERED_TEXT),
        Column("new_limit", INT, field="limit", null=True, merge=KEEP_IF_NULL),
        Column("raised_to", INT, null=True, merge=KEEP_IF_NULL),
        Column("raised_until", TIME, null=True, merge=KEEP_IF_NULL),
        key=["cap"],
        since=4,
        what="the change of the cap",
        grants="SELECT, INSERT, UPDATE",
        tenant=tenant,
        policies=WRITTEN_BY_OPERATORS,
        guarded_since=4 if tenant else COUNTED_SINCE,
    )
    for name, tenant in (("cap_changes", True), ("shared_cap_changes", False))
)

STOPS, SHARED_STOPS = (
    Table(
        name,
        Stop,
        Column("connector", ORDERED_TEXT),
        Column("since_at", TIME, field="since"),
        Column("reason", TEXT),
        key=["connector"],
        since=4,
        what="the stop of",
        grants="SELECT, INSERT, DELETE",
        tenant=tenant,
        policies=WRITTEN_BY_OPERATORS,
        guarded_since=4 if tenant else COUNTED_SINCE,
    )
    for name, tenant in (("stops", True), ("shared_stops", False))
)

# How many rows those four tables have. A reservation compares: a stop that cannot be seen, because
# row security shows less than there is, must not be taken for none. Triggers count, so that every
# row is counted, also one written by hand. A tenant that has totals has a count, be it of nothing.
_COUNTS = (
    Column("stops", INT, check="stops >= 0"),
    Column("cap_changes", INT, check="cap_changes >= 0"),
)

_LIMIT_COUNTS: Table[Any] = Table(
    "limit_counts",
    None,
    *_COUNTS,
    key=[],
    since=COUNTED_SINCE,
    grants="SELECT, INSERT, UPDATE",
)

_SHARED_LIMIT_COUNTS: Table[Any] = Table(
    "shared_limit_counts",
    None,
    Column("id", INT),  # there is one row
    *_COUNTS,
    key=["id"],
    since=COUNTED_SINCE,
    grants="SELECT, UPDATE",
    tenant=False,
    policies=WRITTEN_BY_OPERATORS,
)

_COUNT_ON_SQLITE = """\
INSERT INTO limit_counts SELECT tenant_id, sum(s), sum(c) FROM (
    SELECT tenant_id, 1 AS s, 0 AS c FROM stops
    UNION ALL SELECT tenant_id, 0, 1 FROM cap_changes
    UNION ALL SELECT tenant_id, 0, 0 FROM budgets) GROUP BY tenant_id;
INSERT INTO shared_limit_counts SELECT 1,
    (SELECT count(*) FROM shared_stops), (SELECT count(*) FROM shared_cap_changes);
CREATE TRIGGER budgets_have_counts AFTER INSERT ON budgets BEGIN
    INSERT INTO limit_counts SELECT NEW.tenant_id, 0, 0 WHERE NOT EXISTS (
        SELECT 1 FROM limit_counts WHERE tenant_id = NEW.tenant_id);
END;
""" + "".join(
    f"""\
CREATE TRIGGER {table}_are_counted AFTER INSERT ON {table} BEGIN
    INSERT INTO limit_counts SELECT NEW.tenant_id, 0, 0 WHERE NOT EXISTS (
        SELECT 1 FROM limit_counts WHERE tenant_id = NEW.tenant_id);
    UPDATE limit_counts SET {table} = {table} + 1 WHERE tenant_id = NEW.tenant_id;
END;
CREATE TRIGGER {table}_are_counted_off AFTER DELETE ON {table} BEGIN
    UPDATE limit_counts SET {table} = {table} - 1 WHERE tenant_id = OLD.tenant_id;
END;
CREATE TRIGGER shared_{table}_are_counted AFTER INSERT ON shared_{table} BEGIN
    UPDATE shared_limit_counts SET {table} = {table} + 1;
END;
CREATE TRIGGER shared_{table}_are_counted_off AFTER DELETE ON shared_{table} BEGIN
    UPDATE shared_limit_counts SET {table} = {table} - 1;
END;
"""
    for table in ("stops", "cap_changes")
)

# The owner of the tables reads them without a tenant, for as long as this step takes. Functions run
# as their callers, so row security binds them.
_FORCED = ("stops", "cap_changes", "budgets", "limit_counts", "shared_limit_counts")

_COUNT_ON_POSTGRES = (
    "".join(f"ALTER TABLE stoker.{table} NO FORCE ROW LEVEL SECURITY;\n" for table in _FORCED)
    + """\
INSERT INTO stoker.limit_counts SELECT tenant_id, sum(s), sum(c) FROM (
    SELECT tenant_id, 1 AS s, 0 AS c FROM stoker.stops
    UNION ALL SELECT tenant_id, 0, 1 FROM stoker.cap_changes
    UNION ALL SELECT tenant_id, 0, 0 FROM stoker.budgets) AS rows GROUP BY tenant_id;
INSERT INTO stoker.shared_limit_counts SELECT 1,
    (SELECT count(*) FROM stoker.shared_stops), (SELECT count(*) FROM stoker.shared_cap_changes);
"""
    + "".join(f"ALTER TABLE stoker.{table} FORCE ROW LEVEL SECURITY;\n" for table in _FORCED)
    + """\
CREATE FUNCTION stoker.start_counts() RETURNS trigger LANGUAGE plpgsql
SECURITY INVOKER SET search_path = pg_catalog AS $body$
BEGIN
    INSERT INTO stoker.limit_counts VALUES (NEW.tenant_id, 0, 0) ON CONFLICT DO NOTHING;
    RETURN NULL;
END
$body$;
CREATE TRIGGER budgets_have_counts AFTER INSERT ON stoker.budgets
    FOR EACH ROW EXECUTE FUNCTION stoker.start_counts();
CREATE FUNCTION stoker.count_limits() RETURNS trigger LANGUAGE plpgsql
SECURITY INVOKER SET search_path = pg_catalog AS $body$
DECLARE
    stop int := (TG_TABLE_NAME = 'stops')::int;
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO stoker.limit_counts AS c VALUES (NEW.tenant_id, stop, 1 - stop)
        ON CONFLICT (tenant_id) DO UPDATE SET stops = c.stops + excluded.stops,
            cap_changes = c.cap_changes + excluded.cap_changes;
    ELSE
        UPDATE stoker.limit_counts c
        SET stops = c.stops - stop, cap_changes = c.cap_changes - (1 - stop)
        WHERE c.tenant_id = OLD.tenant_id;
    END IF;
    RETURN NULL;
END
$body$;
CREATE FUNCTION stoker.count_shared_limits() RETURNS trigger LANGUAGE plpgsql
SECURITY INVOKER SET search_path = pg_catalog AS $body$
DECLARE
    more int := CASE TG_OP WHEN 'INSERT' THEN 1 ELSE -1 END;
    stop int := (TG_TABLE_NAME = 'shared_stops')::int;
BEGIN
    UPDATE stoker.shared_limit_counts c
    SET stops = c.stops + more * stop, cap_changes = c.cap_changes + more * (1 - stop);
    RETURN NULL;
END
$body$;
"""
    + "".join(
        f"""\
CREATE TRIGGER {table}_are_counted AFTER INSERT OR DELETE ON stoker.{table}
    FOR EACH ROW EXECUTE FUNCTION stoker.count_limits();
CREATE TRIGGER shared_{table}_are_counted AFTER INSERT OR DELETE ON stoker.shared_{table}
    FOR EACH ROW EXECUTE FUNCTION stoker.count_shared_limits();
"""
        for table in ("stops", "cap_changes")
    )
)

# It runs as its caller, so row security binds it. Entries are numbered and chained as
# `ledger.chain` says.
_WRITE_MOVES = f"""
CREATE FUNCTION stoker.write_moves(asked json) RETURNS void LANGUAGE plpgsql
SECURITY INVOKER SET search_path = pg_catalog AS $body$
DECLARE
    me  text := stoker_sec.tenant();
    one record;
BEGIN
    FOR one IN SELECT * FROM json_to_recordset(asked -> 'holds') AS (
        key text, connector text, fingerprint text, phase text, owner text, until_at timestamptz,
        reserved_at timestamptz, closed_at timestamptz, run text, account text, reason text,
        amounts json, charges json, actual json, seen_phase text, seen_until_at timestamptz)
    LOOP
        IF one.seen_phase IS NULL THEN
            INSERT INTO stoker.holds VALUES (me, one.key, one.connector, one.fingerprint,
                one.phase, one.owner, one.until_at, one.reserved_at, one.closed_at, one.run,
                one.account, one.reason, one.amounts, one.charges, one.actual)
            ON CONFLICT DO NOTHING;
        ELSE
            UPDATE stoker.holds h SET phase = one.phase, closed_at = one.closed_at,
                reason = one.reason, actual = one.actual
            WHERE h.tenant_id = me AND h.key = one.key AND h.phase = one.seen_phase
                AND h.until_at = one.seen_until_at;
        END IF;
        IF NOT FOUND THEN RAISE EXCEPTION 'another promise' USING ERRCODE = '{CONFLICT_SQLSTATE}';
        END IF;
    END LOOP;
    FOR one IN SELECT * FROM json_to_recordset(asked -> 'totals') AS (
        shared boolean, cap text, window_name text, settled bigint, reserved bigint,
        within bigint)
    LOOP
        FOR attempt IN 1..2 LOOP
            IF one.shared THEN
                UPDATE stoker.shared_budgets b
                SET settled = b.settled + one.settled, reserved = b.reserved + one.reserved
                WHERE b.cap = one.cap AND b.window_name = one.window_name
                    AND (one.within IS NULL
                        OR b.settled + b.reserved + one.reserved <= one.within);
            ELSE
                UPDATE stoker.budgets b
                SET settled = b.settled + one.settled, reserved = b.reserved + one.reserved
                WHERE b.tenant_id = me AND b.cap = one.cap AND b.window_name = one.window_name
                    AND (one.within IS NULL
                        OR b.settled + b.reserved + one.reserved <= one.within);
            END IF;
            EXIT WHEN FOUND;
            IF attempt = 2 THEN RAISE EXCEPTION 'no room' USING ERRCODE = '{CONFLICT_SQLSTATE}';
            END IF;
            IF one.shared THEN
                INSERT INTO stoker.shared_budgets VALUES (one.cap, one.window_name, 0, 0)
                ON CONFLICT DO NOTHING;
            ELSE
                INSERT INTO stoker.budgets VALUES (me, one.cap, one.window_name, 0, 0)
                ON CONFLICT DO NOTHING;
            END IF;
        END LOOP;
    END LOOP;
    -- The totals may have been waited for; a stop that came meanwhile still counts.
    IF EXISTS (
        SELECT FROM json_to_recordset(asked -> 'holds') AS h (connector text, seen_phase text)
        WHERE h.seen_phase IS NULL AND (
            EXISTS (SELECT FROM stoker.stops s
                WHERE s.tenant_id = me AND s.connector IN ('', h.connector))
            OR EXISTS (SELECT FROM stoker.shared_stops s WHERE s.connector IN ('', h.connector)))
    ) THEN RAISE EXCEPTION 'stopped' USING ERRCODE = '{CONFLICT_SQLSTATE}'; END IF;
    FOR one IN SELECT * FROM json_to_recordset(asked -> 'notes') AS (
        at timestamptz, kind text, subject text, reason text, data json, unnumbered text)
    LOOP
        LOOP
            INSERT INTO stoker.ledger
            SELECT me, last.seq + 1, one.at, one.kind, one.subject, one.reason, one.data,
                last.digest, encode(sha256(convert_to(
                    last.digest || '[' || (last.seq + 1) || ',' || one.unnumbered, 'UTF8')), 'hex')
            FROM (
                (SELECT l.seq, l.digest FROM stoker.ledger l WHERE l.tenant_id = me
                    ORDER BY l.seq DESC LIMIT 1)
                UNION ALL SELECT 0, repeat('0', 64) ORDER BY seq DESC LIMIT 1
            ) AS last
            ON CONFLICT DO NOTHING;
            EXIT WHEN FOUND;
        END LOOP;
    END LOOP;
END
$body$;
"""

_STOPPED = "    -- The totals may have been waited for; a stop that came meanwhile still counts.\n"

# As stops are asked for once more, so is whether all of them are seen.
_ALL_SEEN = f"""\
    IF EXISTS (SELECT FROM json_to_recordset(asked -> 'holds') AS h (seen_phase text)
            WHERE h.seen_phase IS NULL) AND (
        coalesce((SELECT c.stops FROM stoker.limit_counts c WHERE c.tenant_id = me), 0)
        <> (SELECT count(*) FROM stoker.stops s WHERE s.tenant_id = me)
        OR (SELECT c.stops FROM stoker.shared_limit_counts c)
        IS DISTINCT FROM (SELECT count(*) FROM stoker.shared_stops)
    ) THEN RAISE EXCEPTION 'unseen' USING ERRCODE = '{CONFLICT_SQLSTATE}'; END IF;
"""

TABLES = (
    RESERVATIONS,
    USAGE,
    CAP_CHANGES,
    STOPS,
    SHARED_USAGE,
    SHARED_CAP_CHANGES,
    SHARED_STOPS,
    Script(since=4, postgres=_WRITE_MOVES),
    _LIMIT_COUNTS,
    _SHARED_LIMIT_COUNTS,
    Script(
        since=COUNTED_SINCE,
        sqlite=_COUNT_ON_SQLITE,
        postgres=_COUNT_ON_POSTGRES
        + _WRITE_MOVES.replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION").replace(
            _STOPPED, _ALL_SEEN + _STOPPED
        ),
    ),
)


def validate_request(request: SpendRequest) -> SpendRequest:
    """Return the request, every text of which a store can keep."""
    validate_name(request.run or "", what="a run's name")
    validate_name(request.account or "", what="an account")
    return request


def validate_change(change: CapChange, *, shared: bool) -> CapChange:
    """Return the change as stores return it.

    Raises ConfigError when the caller may not change this cap: tenants their own, operators shared
    ones.
    """
    validate_name(change.cap, what="a cap")
    if change.cap.startswith(f"{Scope.CONNECTOR}/") != shared:
        whose = "its tenant" if shared else "an operator"
        raise ConfigError(f"{change.cap!r} can only be changed by {whose}; nothing was changed")
    until = change.raised_until
    return replace(change, raised_until=until and to_utc(until, what="raised_until"))


def validate_stop(connector: str, *, reason: str = "") -> str:
    """Return the connector a stop is for, or nothing for all of them."""
    validate_text(reason, what="a reason")
    return validate_connector(connector) if connector else ALL_CONNECTORS
