"""The hostile web and its vendors, in large: the counts of C2, C4 to C8 and D1 to D10.

    python -m proof web [--scale 0.01]

Every line says how often something was tried (n), how often it came to something (acknowledged)
and what did not hold. The same trials with small counts are `tests/faults/test_ssrf.py`,
`test_hostile_web.py`, `test_hostile_sites.py`, `test_vendor_faults.py`, `test_crm_races.py`,
`test_prompt_injection.py` and `tests/contracts/test_poison.py`, beside the naive twins that they
catch.
"""

from __future__ import annotations

import asyncio
import random
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import pg
from contracts.backends import BACKENDS
from contracts.poison import FIELDS, save_texts
from faults import (
    crm_trials,
    injection_trials,
    site_trials,
    vendor_trials,
    web_trials,
)
from faults.injections import attacks
from faults.poison import POISON, made_up
from faults.tally import Tally
from faults.web_lab import STATUSES, trial, why_no_lab
from stoker.backends.postgres import PostgresBackend
from stoker.context import Backend

Counts = Iterator[tuple[str, Tally]]
A_NIGHT = 1_000  # calls on one store, so that no trial grows without end
A_RACE = 200
SEEDS = 5
PERCENTS = (150, 200, 700)


def counted(most: int, scale: float, *, least: int) -> int:
    """Return how often to try something that is tried so often at scale 1."""
    return max(round(most * scale), least)


def rounds(most: int, of: int, scale: float) -> int:
    """Return how many rounds of so many trials make up a count."""
    return max(1, round(most * scale / of))


def told(what: str, tally: Tally) -> int:
    """Print a count; return how much of it broke."""
    bound = f", rate < {3 / tally.n:.2g}" if tally.n and not tally.broken else ""
    print(
        f"{what}: n={tally.n}, acknowledged {tally.acked}, broken {len(tally.broken)}{bound}",
        flush=True,
    )
    for each in tally.broken[:5]:
        print(f"    {each}", flush=True)
    return len(tally.broken)


def addresses(scale: float) -> Counts:
    """Every attack, every redirect, many that change their mind, and many made up."""
    if reason := why_no_lab():
        print(f"D1 D2 D3 D4 addresses leading inside: not tried, for {reason}")
        return
    seen = trial(
        "ours",
        fuzz=counted(50_000, scale, least=200),
        rebinds=counted(5_000, scale, least=50),
        redirects=len(STATUSES),
    )
    kinds = ", ".join(f"{kind} {n}" for kind, n in sorted(seen.tried.items()))
    tally = Tally(
        n=seen.tried.total(), acked=seen.legit, broken=[*seen.leaks, *seen.hits, *seen.probes]
    )
    tally.broken += ["a public address was refused"] * (seen.legit_of - seen.legit)
    yield f"D1 D2 D3 D4 addresses leading inside ({kinds})", tally


def vendors(scale: float) -> Counts:
    """Vendors that charge and lose answers, become dearer, and are asked again."""
    lies, batches, prices, replays = Tally(), Tally(), Tally(), Tally()
    with tempfile.TemporaryDirectory() as room:

        def home(name: str) -> Path:
            made = Path(room) / name
            made.mkdir()
            return made

        for seed in range(rounds(40_000, A_NIGHT, scale)):
            lies += vendor_trials.lied_to(home(f"lies {seed}"), calls=A_NIGHT, cap=700, seed=seed)[
                0
            ]
        for seed in range(rounds(10_000, A_NIGHT, scale)):
            batches += vendor_trials.batched(home(f"batches {seed}"), count=A_NIGHT, seed=seed)[0]
        for seed in range(rounds(1_000, 50, scale)):
            percent = PERCENTS[seed % len(PERCENTS)]
            prices += vendor_trials.dearer(home(f"prices {seed}"), percent=percent, seed=seed)[0]
        for seed in range(rounds(500, 50, scale)):
            replays += vendor_trials.replayed(home(f"replays {seed}"), n=50, seed=seed)
    yield "C2 calls to a vendor that charges and loses answers", lies
    yield "C2 addresses verified in batches that fail and meet", batches
    yield "C5 calls to a vendor that becomes dearer", prices
    yield "C6 questions asked again later, or under another's key", replays


def crm(scale: float, rng: random.Random) -> Counts:
    """Writers who meet, and texts that break something, in a CRM."""
    races, poison = Tally(), Tally()
    for _ in range(rounds(10_000, A_RACE, scale)):
        races += crm_trials.racing(rng, A_RACE)
    yield "C7 groups of writers meeting in a CRM", races
    fields = sum(map(len, crm_trials.OWNED.values()))
    for protocol in ("json2", "xmlrpc"):
        poison += crm_trials.poisoned(protocol, POISON)
        for _ in range(rounds(25_000, 20 * fields, scale)):
            texts = {f"made up {nth}": made_up(rng) for nth in range(20)}
            poison += crm_trials.poisoned(protocol, texts)
    yield "C8 poison in every field of a CRM, by both protocols", poison


def stores(scale: float, rng: random.Random) -> Counts:
    """Texts that break something, in every store."""
    many = counted(50_000 // len(FIELDS), scale, least=20)
    texts = [*POISON.values(), *(made_up(rng) for _ in range(many))]
    with tempfile.TemporaryDirectory() as room:
        yield "C8 poison in sqlite", asyncio.run(_poison(BACKENDS["sqlite"](Path(room)), texts))
    if reason := pg.why_no_postgres():
        print(f"C8 poison in postgres: not tried, for {reason}")
        return
    with pg.own_server() as server:
        backend = PostgresBackend(pg.fresh_database(server)[1])
        yield "C8 poison in postgres", asyncio.run(_poison(_closing(backend), texts))


async def _poison(opening: AbstractAsyncContextManager[Backend], texts: list[str]) -> Tally:
    tally = Tally()
    async with opening as backend:
        for field in FIELDS:
            tally += await save_texts(backend, field, texts)
    return tally


@asynccontextmanager
async def _closing(backend: PostgresBackend) -> AsyncIterator[PostgresBackend]:
    try:
        yield backend
    finally:
        await backend.close()


def bodies(scale: float) -> Counts:
    """Servers that never end, and bombs."""
    yield "C3 servers that never end", web_trials.ending(counted(500, scale, least=28))
    bombs, growth = web_trials.eating(counted(100, scale, least=3))
    yield f"D5 bombs (memory grew by {growth / web_trials.MIB:.1f} MiB at most)", bombs


def sites(scale: float) -> Counts:
    """Patterns and whole sites made to hold us up or mislead us."""
    visits = Tally()
    for seed in range(rounds(2_000, 200, scale)):
        visits += site_trials.visited(200, seed=5 + seed)[0]
    yield "D8 sites of every trouble", visits
    patterns, (slowest, where, text) = site_trials.held_up(counted(400, scale, least=4))
    yield f"D9 patterns of ours (worst {slowest:.1f} ms, {where} on {text})", patterns
    orders = Tally()
    for seed in range(1, 1 + rounds(60 * SEEDS, 60, scale)):
        for careless in (False, True):
            seen, *_ = injection_trials.outcome_of(attacks(), careless=careless, seed=seed)
            orders += injection_trials.obeyed(seen)
    yield "D10 hostile pages read by a model that obeys", orders


def main(scale: float = 1.0) -> int:
    """Print each count with what broke; return how much did."""
    rng = random.Random("proof of the web")
    parts: tuple[Callable[[], Counts], ...] = (
        lambda: addresses(scale),
        lambda: vendors(scale),
        lambda: crm(scale, rng),
        lambda: stores(scale, rng),
        lambda: bodies(scale),
        lambda: sites(scale),
    )
    return sum(told(what, tally) for part in parts for what, tally in part())


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
