"""Breaking Postgres, and the road to it, many times; `make test` and `make proof` differ in n.

Each trial returns a tally of broken promises. The naive ways of doing the same thing stand here
too, and must break theirs.
"""

import asyncio
import random
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime, timedelta
from functools import partial

import psycopg
from psycopg_pool import ConnectionPool

from faults.pg_proxy import COMMIT, Fate
from faults.tally import Tally
from pg import Server
from stoker.backends.postgres import PostgresBackend
from stoker.base.errors import PermanentError, TransientError, UncertainError
from stoker.base.types import EnrichedJob, Job, JobScore, TenantId, parse_tenant_id
from stoker.context import TenantStores
from stoker.db.database import Transaction
from stoker.db.postgres import BEGIN_READ, BEGIN_WRITE
from stoker.ledger.chain import NewEntry, find_first_break
from stoker.runs.leases import Lease
from stoker.runs.model import CancelRequest, Run, RunKey
from stoker.scheduling.model import OccurrenceResult, OccurrenceState

ACME, GLOBEX = parse_tenant_id("acme"), parse_tenant_id("globex")
TENANTS = (ACME, GLOBEX)
ROWS = {  # rows as they are, since only whose they are matters here
    "holds": "(:tenant, 'k', 'c', '', 'SENT', '', now(), now(), NULL, NULL, NULL, '',"
    " '{}', '{}', '{}')",
    "budgets": "(:tenant, 'cap', 'day', 1, 1)",
    "cap_changes": "(:tenant, 'cap', 1, NULL, NULL)",
    "stops": "(:tenant, 'c', now(), '')",
    "site_pages": "(:tenant, 's', 'u', 200, '', '', '', now(), now())",
    "vendor_answers": "(:tenant, 'k', 'zerobounce', '[1]', '{}', now(), now())",
    "tenant_users": "(:tenant, 'u', '', 'r', true)",
    "onboarding_status": "(:tenant, 's', now())",
    "odoo_connections": "(:tenant, 'odoo', 'u', 'd', true, NULL)",
    "icp_rules": "(:tenant, 'r', '[]', 1, 2, 2000, 2025)",
    "account_marks": "(:tenant, 'm', now())",
    "companies": "(:tenant, 'c', 'n', true, '', NULL, '', '', NULL, now())",
    "icp_candidate_companies": "(:tenant, 'r', 'c')",
    "company_findings": "(:tenant, 'c', now(), 'r', '', '[]', '{}')",
    "contacts": "(:tenant, 'c', 0, 'n', '', '', '', 's', 1)",
    "lead_emails": "(:tenant, 'c', 0, 'e', 'valid')",
    "lead_features": "(:tenant, 'c', '{}', 'h')",
    "lead_scores": "(:tenant, 'c', 1, 'High', '')",
    "company_enrichment_runs": "(:tenant, 'r', 'c', 0, 'DEEP', 'waiting', '', NULL, '', '[]', '{}',"
    " '{}', '{}', NULL)",
    "crm_left_rows": "(:tenant, 'x', 'm', 'r', true, 'w', now())",
    "crm_sent_rows": "(:tenant, 'r', 'x', 'm', 'd', '{}', '{}', now())",
    "touch_profiles": "(:tenant, 'u', 'n', 'active', NULL)",
    "touch_plans": "(:tenant, '2026-W07', 1, '{}')",
    "touches": "(:tenant, '2026-W07', '2026-02-09', 'u', 'n', now(), 1, NULL, false, 1, NULL)",
    "touch_outcomes": "(:tenant, '2026-02-09', 'u', 'done', now())",
    "touch_handovers": "(:tenant, '2026-02-09', 'u', 'file', now(), '')",
    "touch_counters": "(:tenant, 'c', 1)",
    "posting_sources": "(:tenant, 'lever:x', 'read', now(), NULL, 1, '', '', 0, '')",
    "posting_listings": "(:tenant, 'lever:x', 'j', 'lever', 'u', 't', 'c', 'l', NULL, 't', '',"
    " '[]', false, false, now(), now())",
    "account_signals": "(:tenant, 's', 'c', 'POSTING', now(), 1, '')",
    "account_heats": "(:tenant, 'c', 'COLD', 0, 0, 0, 0, 0, 0, 0, NULL, '', now(), NULL, now(),"
    " now())",
    "account_heat_days": "(:tenant, 'c', '2026-02-07', 'COLD', 0, 0, 0, 0, now())",
    "account_beliefs": "(:tenant, 'c', now(), NULL, NULL, NULL, NULL, NULL)",
    "looks_learned": "(:tenant, 'k', now())",
    "lookup_recoveries": "(:tenant, 0, 0)",
    "pull_plans": "(:tenant, 'r', now(), 'tiers', '{}')",
    "pull_plan_parts": "(:tenant, 'r', 0, 'p')",
    "contact_suppressions": "(:tenant, 'h', 'email', now())",
    "ledger_checkpoints": "(:tenant, 1, '', 1, '', now(), now())",
}
VIEWS = ("enrichment_runs", "email_verification_cache")
TABLES = (
    "runs",
    "cancel_requests",
    "jobs",
    "enriched",
    "scores",
    "leases",
    "slots",
    "ledger",
    "limit_counts",
    *ROWS,
    *VIEWS,
)
REGISTER = (
    "registry_loads",
    "registry_rejects",
    "registry_seen",
    "staging_acra_companies",
    "staging_raw_acra",
    "ssic_ref",
)
SHARED = (
    "shared_budgets",
    "shared_cap_changes",
    "shared_stops",
    "shared_limit_counts",
    "rates",
    "places",
    "tenants",
    *REGISTER,
)
START = datetime(2030, 1, 1, tzinfo=UTC)
AT_COMMIT = (Fate.LOST, Fate.UNANSWERED)
SAW = "SELECT tenant_id FROM stoker.ledger"


class ThrownError(Exception):
    """What a handler throws half-way."""


async def fill(
    backend: PostgresBackend, *, tenants: Iterable[TenantId] = TENANTS, rows: int = 3
) -> None:
    """Give each tenant a few rows in every table; all but the tenant is the same."""
    for tenant in tenants:
        store = backend.tenant(tenant)
        run = Run(key=RunKey(START, 1), kind="nightly")
        jobs = [Job.create(source="board", url=f"https://x/{n}", title="t") for n in range(rows)]
        await store.runs.insert_run(run)
        await store.runs.request_cancel(run.at, CancelRequest(by="me", at=START))
        await store.runs.insert_jobs(run.key, jobs)
        await store.runs.insert_enriched(
            run.key, [EnrichedJob(job=job.id, title="t") for job in jobs]
        )
        await store.runs.insert_scores(
            run.key, [JobScore(job=job.id, score=0.5, bucket="moderate") for job in jobs]
        )
        for n in range(rows):
            wanted = Lease(name=f"lease{n}", owner="me", fencing_token=1, heartbeat=1, until=START)
            await store.schedule.swap_lease(None, wanted)
            await store.schedule.record_result(slot(n), fence=None)
        await backend.transact(tenant, BEGIN_WRITE, partial(_fill_rows, tenant))


def _fill_rows(tenant: TenantId, tx: Transaction) -> None:
    for table, row in ROWS.items():
        tx.execute(f"INSERT INTO {table} VALUES {row}", tenant=tenant)


def slot(n: int) -> OccurrenceResult:
    instant = START + timedelta(minutes=n)
    return OccurrenceResult(
        schedule="s", due_at=instant, state=OccurrenceState.STARTED, decided_at=instant
    )


# E1: many requests over few connections, some of which forget who they are for, or throw.


class OurDoor:
    """The backend as it is."""

    def __init__(self, backend: PostgresBackend) -> None:
        self._backend = backend

    async def seen(self, tenant: TenantId, *, throws: bool) -> list[str]:
        def look(tx: Transaction) -> list[str]:
            rows = [row[0] for row in tx.query(SAW)]
            if throws:
                raise ThrownError
            return rows

        return await self._backend.transact(tenant, BEGIN_READ, look)

    async def seen_without_saying_who(self) -> list[str] | None:
        try:
            return await self._backend.run_outside_tenants(
                lambda link: [row[0] for row in link.execute(SAW)]
            )
        except PermanentError:
            return None


class SessionDoor:
    """The naive twin: the tenant is set on the connection, and the pool hands it on."""

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool

    async def seen(self, tenant: TenantId, *, throws: bool) -> list[str]:
        def look() -> list[str]:
            with self._pool.connection() as link:
                link.execute("SELECT set_config('request.tenant_id', %s, false)", [tenant])
                rows = [row[0] for row in link.execute(SAW)]
                if throws:
                    raise ThrownError
                return rows

        return await asyncio.to_thread(look)

    async def seen_without_saying_who(self) -> list[str] | None:
        def look() -> list[str] | None:
            with self._pool.connection() as link:
                try:
                    return [row[0] for row in link.execute(SAW)]
                except psycopg.errors.InsufficientPrivilege:
                    link.rollback()
                    return None

        return await asyncio.to_thread(look)


async def storm(
    door: OurDoor | SessionDoor, *, requests: int, rng: random.Random, at_once: int = 8
) -> Tally:
    """Send requests of which 5 % forget the tenant and 5 % throw; count foreign and silent ones."""
    tally = Tally()
    chances = [rng.random() for _ in range(requests)]
    left = iter([(chance, rng.choice(TENANTS)) for chance in chances])

    async def lane() -> None:
        for chance, tenant in left:
            tally.n += 1
            if chance < 0.05:
                saw = await door.seen_without_saying_who()
                if saw is not None:
                    tally.broken.append(f"asked for nobody, saw {Counter(saw)}")
                continue
            try:
                saw = await door.seen(tenant, throws=chance > 0.95)
            except ThrownError:
                continue
            tally.acked += 1
            if set(saw) != {tenant}:
                tally.broken.append(f"asked for {tenant}, saw {Counter(saw)}")

    await asyncio.gather(*(lane() for _ in range(at_once)))
    return tally


# B4: the connection is cut at a COMMIT, before it arrives or after it was carried out.


class Cuts:
    """Decides the fate of each COMMIT; every other one is cut while there are cuts left.

    With `words`, it is every other message with these words in it.
    """

    def __init__(
        self,
        cuts: int,
        rng: random.Random,
        *,
        fates: tuple[Fate, ...] = AT_COMMIT,
        words: bytes = b"",
    ) -> None:
        self.left, self._rng, self._fates, self._words = cuts, rng, fates, words
        self._lock = threading.Lock()

    def __call__(self, kind: bytes, body: bytes) -> Fate:
        if self._words not in body if self._words else (kind, body) != (b"Q", COMMIT):
            return Fate.PASS
        with self._lock:
            if not self.left or self._rng.random() < 0.5:
                return Fate.PASS
            self.left -= 1
            return self._rng.choice(self._fates)


Verb = Callable[[TenantStores, int], Awaitable[None]]


async def decide(store: TenantStores, n: int) -> None:
    """Our way: an instant is decided under its own key, so a repetition finds it decided."""
    while True:
        try:
            await store.schedule.record_result(slot(n), fence=None)
            return
        except (TransientError, UncertainError):
            await asyncio.sleep(0.01)


async def append_again(store: TenantStores, n: int) -> None:
    """The naive twin: a note without a key, written again whenever the answer was lost."""
    while True:
        try:
            await store.ledger.append([NewEntry(at=START, kind="n", subject=str(n), reason="r")])
            return
        except (TransientError, UncertainError):
            await asyncio.sleep(0.01)


async def cut_commits(backend: PostgresBackend, cuts: Cuts, verb: Verb, *, lanes: int = 4) -> Tally:
    """Do things until every cut was made; then look whether each is there exactly once."""
    store, n = backend.tenant(ACME), cuts.left
    numbers, acked = iter(range(10**9)), list[int]()

    async def lane() -> None:
        while cuts.left:
            number = next(numbers)
            await verb(store, number)
            acked.append(number)

    await asyncio.gather(*(lane() for _ in range(lanes)))
    return await judged(store, acked, n=n)


async def judged(store: TenantStores, acked: list[int], *, n: int) -> Tally:
    """Compare what was acknowledged with what the store has."""
    tally = Tally(n=n, acked=len(acked))
    entries = []
    while page := await store.ledger.list_entries(after=len(entries)):
        entries += page
    there = Counter(entry.subject for entry in entries)
    slots = await store.schedule.list_results("s")
    if find_first_break(entries) is not None:
        tally.broken.append(f"the chain breaks at {find_first_break(entries)}")
    if slots and len(slots) != len(entries):
        tally.broken.append(f"{len(slots)} slots but {len(entries)} entries")
    for number in acked:
        count = there[str(number)] + there[f"s@{slot(number).due_at.isoformat()}"]
        if not count:
            tally.broken.append(f"{number} was acknowledged and is not there")
        elif count > 1:
            tally.broken.append(f"{number} was acknowledged once and is there {count} times")
    return tally


# B3: the server loses all its processes at once, and comes back.


async def restarts(server: Server, backend: PostgresBackend, *, times: int, each: int) -> Tally:
    """Stop the server `times` times while things are being decided, `each` between two stops."""
    store, acked = backend.tenant(ACME), list[int]()
    numbers, done = iter(range(10**9)), asyncio.Event()

    async def lane() -> None:
        while not done.is_set():
            number = next(numbers)
            await decide(store, number)
            acked.append(number)

    lanes = [asyncio.create_task(lane()) for _ in range(4)]
    for stop in range(times):
        while len(acked) < (stop + 1) * each:  # the lanes must not know
            await asyncio.sleep(0.01)
        await asyncio.to_thread(server.stop)
        await asyncio.to_thread(server.start)
    done.set()
    await asyncio.gather(*lanes)
    return await judged(store, acked, n=times)


def hasty(server: Server, url: str, *, writes: int) -> Tally:
    """The naive twin: acknowledged before it is on disk, then the server stops."""
    with psycopg.connect(url, autocommit=True) as link:
        link.execute("CREATE TABLE IF NOT EXISTS hasty (n int)")
        # The server's own writer comes by five times a second; a busy machine must not wait for it.
        link.execute("ALTER SYSTEM SET wal_writer_delay = '10s'")
        link.execute("SELECT pg_reload_conf()")
        time.sleep(0.5)
        link.execute("SET synchronous_commit = off")
        for n in range(writes):
            link.execute("INSERT INTO hasty VALUES (%s)", [n])
        server.stop()
    server.start()
    with psycopg.connect(url, autocommit=True) as link:
        there = {n for (n,) in link.execute("SELECT n FROM hasty")}
    lost = [n for n in range(writes) if n not in there]
    return Tally(n=1, acked=writes, broken=[f"{n} was acknowledged and is gone" for n in lost])


# B5: the connection stays open, and nothing comes back any more.


def silent_from(begins: Callable[[bytes, bytes], bool]) -> Callable[[bytes, bytes], Fate]:
    """From this message on a connection swallows everything and answers nothing."""
    return lambda kind, body: Fate.RESERVED if begins(kind, body) else Fate.PASS


def asks_for_a_lease(_: bytes, body: bytes) -> bool:
    return b"FROM leases" in body


def commits(_: bytes, body: bytes) -> bool:
    return body == COMMIT


async def silences(backend: PostgresBackend, *, n: int) -> Tally:
    """Ask on connections that fall silent; each call must end, saying that nothing was done."""
    tally, schedule = Tally(), backend.tenant(ACME).schedule
    while tally.n < n:
        asked = [schedule.find_lease("l") for _ in range(5)]
        for answer in await asyncio.gather(*asked, return_exceptions=True):
            tally.n += 1
            if not isinstance(answer, TransientError):
                tally.broken.append(repr(answer))
    return tally
