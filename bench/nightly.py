"""A tenant's night beside the shortest it could take, its memory, and what a second one pays.

The sandbox and the night each have a process of their own. Vendors and sites take as long as real
ones do, divided by a stated scale, and everything that holds us back (rates, gaps between requests
to a host) is divided by the same. The shortest time is worked out from what the sandbox says it
took over every answer: nobody with so many places, at those rates and as polite, can be quicker.
`tenants` has two tenants' nights at once beside one alone: they share every vendor's rate.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from stoker.enrichment.runner import run_now
from stoker.nightly.setup import build_nightly_run

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

COMPANIES, SCALE, PLACES = 1000, 2, 8
FEW, MANY = 1000, 10_000  # for memory
AGAIN = 200  # companies of the night after
TOGETHER, YEAR = 60, 2012  # companies of each of two tenants; the second wants only newer ones
SEED, GAP, PAGES = 5, 0.5, 6
LATENCY = {  # seconds, as they are on the real internet
    "sites": (0.3, 1.5),
    "tavily": (1.0, 2.0),
    "openai": (1.0, 4.0),
    "lusha": (0.5, 1.0),
    "zerobounce": (5.0, 20.0),
    "odoo": (0.1, 0.3),
}
RATES = {"tavily": 100, "openai": 60, "lusha": 40, "zerobounce": 5, "odoo": 300}  # a minute
BURSTS = {"tavily": 5, "openai": 8, "lusha": 2, "odoo": 10}  # as settings have them
AT_ONCE = {"tavily": 8, "openai": 8, "lusha": 4, "zerobounce": 2, "odoo": 4}
IN_A_PLACE = ("tavily", "openai", "lusha")  # who is asked while a company holds its place
PAID = (*IN_A_PLACE, "zerobounce")
ADDRESSES, A_BATCH = "addresses verified", 100
PLENTY = 100_000_000


def settings_text(address: str, directory: Path, *, scale: float, companies: int) -> str:
    lines = [
        'storage.backend = "sqlite"',
        f'storage.sqlite_path = "{directory / "stoker.db"}"',
        f'sandbox.address = "{address}"',
        'pacing.processes = "one"',
        f"crawl.gap_s = {max(GAP / scale, 0.001)}",
        f"crawl.max_pages = {PAGES}",
        f"scheduling.company_concurrency = {PLACES}",
        f"scheduling.daily_cap_per_tenant = {companies}",
        "scheduling.deadline_minutes = 1440",  # nobody is left out because the machine is busy
    ]
    for cap in (
        *("pull_units_per_day", "money_per_day_minor", "openai_daily_tokens", "openai_calls"),
        *("tavily_queries", "tavily_credits", "lusha_contact_lookups", "lusha_credits"),
        *("zerobounce_verifications", "zerobounce_credits"),
    ):
        lines.append(f"caps.{cap} = {PLENTY}")
    for name, calls in RATES.items():
        lines += [
            f"{name}.calls = {min(int(calls * scale), 1_000_000)}",
            f"{name}.burst = {BURSTS.get(name, 1)}",
            f"{name}.concurrency = {AT_ONCE[name]}",
        ]
    return "\n".join([*lines, "[tenants.acme]", "[tenants.bolt]", ""])


async def serve(scale: float, world: int) -> None:
    """Be the sandbox, and say on every line that comes in how long it took over its answers."""
    from stoker.sandbox.http import Request, Response
    from stoker.sandbox.server import Sandbox
    from watched_box import RETICENT

    class Timed(Sandbox):
        """Remembers how long it made everybody wait, by site and by vendor."""

        check_waits: dict[str, list[float]] = defaultdict(list)  # noqa: RUF012  # there is one

        def answer(self, asked: Request) -> Response:
            told = super().answer(asked)
            wait = told.after.total_seconds() if told.after else 0.0
            self.check_waits[asked.host.removeprefix("www.")].append(wait)
            if asked.host == "zerobounce.test" and asked.body:
                self.check_waits[ADDRESSES] += [0.0] * len(asked.parse_json()["email_batch"])
            return told

    dials = {"zerobounce.calls": PLENTY}
    for name, (low, high) in LATENCY.items() if scale < 1000 else ():
        dials |= {f"{name}.latency_low": low / scale, f"{name}.latency_high": high / scale}
    async with Timed(seed=SEED, companies=world, dials=dials, vendors=RETICENT) as box:
        print(box.address, flush=True)
        while await asyncio.to_thread(sys.stdin.readline):
            print(json.dumps(box.check_waits), flush=True)
            box.check_waits.clear()


async def fill(
    address: str, room: str, companies: int, scale: float, world: int, tenants: int
) -> None:
    """Make a room with settings and a register, in a process whose memory is not the night's."""
    from night_house import ACME, ANYBODY, BOLT, entity_of, register
    from stoker.app import open_app, read_settings
    from stoker.sandbox.world.companies import World

    text = settings_text(address, Path(room), scale=scale, companies=companies)
    (Path(room) / "stoker.toml").write_text(text)
    own = read_settings(directory=Path(room), config=None, flags={}, environment={})
    async with open_app(own, observer=lambda _: None) as app:
        made = World(seed=SEED, size=world)
        if tenants == 1:
            await register(app, [entity_of(each) for each in quick_sites(made, companies)])
            await app.backend.tenant(ACME).accounts.save_rule(ANYBODY)
            return
        everybody = list(quick_sites(made, world // 2))
        entities = []
        for tenant, years in ((ACME, (1900, YEAR - 1)), (BOLT, (YEAR, 2100))):
            theirs = [each for each in everybody if years[0] <= each.incorporated.year <= years[1]]
            entities += map(entity_of, theirs[:companies])
            await app.backend.tenant(tenant).accounts.save_rule(replace(ANYBODY, years=years))
        await register(app, entities)


async def night(
    address: str, companies: int, scale: float, nights: int, world: int, tenants: int
) -> None:
    """Have nights of one tenant, or of two at once, a day apart; say how each first one went."""
    import resource

    from night_house import ACME, BOLT
    from stoker.app import open_app, read_settings
    from stoker.base.clock import SystemClock

    class Days(SystemClock):
        """The machine's clock, some days ahead."""

        proceed = timedelta(0)

        def now(self):
            return super().now() + self.proceed

    with tempfile.TemporaryDirectory() as name:
        words = ("fill", address, name, companies, scale, world, tenants)
        with program(*words) as filling:
            filling.wait()
        own = read_settings(directory=Path(name), config=None, flags={}, environment={})
        clock = Days()
        async with open_app(own, clock=clock, observer=lambda _: None) as app:
            for _ in range(nights):
                began = time.perf_counter()
                worked = time.process_time()
                run, *_ = await asyncio.gather(
                    *(
                        run_now(app.for_tenant(tenant), build_nightly_run(app.for_tenant(tenant)))
                        for tenant in (ACME, BOLT)[:tenants]
                    )
                )
                took = time.perf_counter() - began
                told = {
                    "took": took,
                    "work": time.process_time() - worked,
                    "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
                    "state": run.state.value,
                    "reason": run.reason,
                    "counts": dict(run.manifest.counts),
                    "steps": {each.step: each.seconds for each in run.manifest.steps},
                }
                print(json.dumps(told), flush=True)
                sys.stdin.readline()
                clock.proceed += timedelta(days=1)


def quick_sites(world, number):
    """Yield companies whose sites have no slowness of their own: that is dialled here."""
    from stoker.sandbox.sites.layout import build_layout
    from stoker.sandbox.world.site_faults import SiteFault

    usual = {
        SiteFault.FINE,
        SiteFault.THIN,
        SiteFault.HIDDEN_CONTACTS,
        SiteFault.TO_WWW,
        SiteFault.GONE,
    }
    usual |= {SiteFault.BROKEN_HTML, SiteFault.SCRIPT_ONLY, SiteFault.PARKED, SiteFault.CHALLENGE}
    found = 0
    for company in map(world.get_company, range(world.size)):
        if company.trouble in usual and not build_layout(world, company).crawl_delay:
            yield company
            found += 1
            if found == number:
                return
    raise ValueError(f"a world of {world.size} has only {found} such companies")


@contextmanager
def program(*words: object):
    """Lend a process of this module: something that answers a line with a line of JSON."""
    command = [sys.executable, "-m", "bench.nightly", *map(str, words)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        yield process
        process.stdin.close()


def said(process, word: str = ""):
    if word:
        process.stdin.write(f"{word}\n")
        process.stdin.flush()
    return json.loads(process.stdout.readline())


def nights(companies: int, *, scale: float, number: int = 1, tenants: int = 1):
    """Have so many nights; return for each how it went and how long answers took, by host."""
    world = 2 * companies * tenants * tenants + 200
    with program("serve", scale, world) as box:
        address = box.stdout.readline().strip()
        with program("night", address, companies, scale, number, world, tenants) as ours:
            went = []
            for _ in range(number):
                told = said(ours)
                went.append((told, said(box, "waits")))
                ours.stdin.write("on\n")
                ours.stdin.flush()
            return went


def shortest(waits: dict[str, list[float]], *, scale: float) -> dict[str, float]:
    """Return, for everything that can hold a night up, the shortest time it allows."""
    of = {name: waits.get(f"{name}.test", []) for name in LATENCY}
    sites = [
        # One request at a time to a host, the next no sooner than the gap after the one before.
        sum(max(wait, GAP / scale) for wait in took[:-1]) + took[-1]
        for host, took in waits.items()
        if host.endswith(".test") and host.removesuffix(".test") not in LATENCY
    ]
    # As few batches as there could have been, however many there were.
    batches = -(-len(waits.get(ADDRESSES, ())) // A_BATCH)
    of["zerobounce"] = sorted(of["zerobounce"])[:batches]
    in_places = sum(sites) + sum(sum(of[name]) for name in IN_A_PLACE)
    bounds = {f"{PLACES} places": in_places / PLACES}
    for name, rate in RATES.items():
        later = max(0, len(of[name]) - BURSTS.get(name, 1))
        bounds[f"{name}'s rate"] = later * 60 / (rate * scale)
        bounds[f"{name}'s places"] = sum(of[name]) / AT_ONCE[name]
    return bounds


def tail(waits: dict[str, list[float]]) -> float:
    """Return what comes after the last company: a verdict, a look into the CRM, a write.

    Each takes as long as they do on average: which one is last, chance decides.
    """
    verdicts, crm = waits.get("zerobounce.test") or [0.0], waits.get("odoo.test") or [0.0]
    return statistics.mean(verdicts) + 2 * statistics.mean(crm)


def clocked(companies: int = COMPANIES, scale: float = SCALE) -> tuple[str, str, str, float]:
    [(told, waits)] = nights(companies, scale=scale)
    bounds = shortest(waits, scale=scale)
    narrow = max(bounds, key=bounds.__getitem__)
    bound = bounds[narrow] + tail(waits)
    each = ", ".join(f"{name} {took:.1f}" for name, took in sorted(bounds.items()) if took)
    print(
        f"n={companies} companies, time divided by {scale:g}: {told['state']} {told['reason']!r}, "
        f"{told['took']:.1f} s, of which at work {told['work']:.1f} s; {told['counts']}\n"
        f"  seconds by step {told['steps']}\n"
        f"  shortest by resource: {each}; afterwards {tail(waits):.2f}; "
        f"load of the machine {os.getloadavg()[0]:.1f}",
        file=sys.stderr,
    )
    what = (
        f"a night of {companies} companies, all times divided by {scale:g}, {PLACES} at once "
        f"(shortest: {narrow})"
    )
    return what, f"{told['took']:.1f} s", f"shortest {bound:.1f} s", told["took"] / bound


def together(companies: int = TOGETHER, scale: float = SCALE) -> tuple[str, str, str, float]:
    """Have two tenants' nights at once, and one alone; what they verify goes at one rate."""
    took, told = [], []
    for tenants in (2, 1):
        [(went, waits)] = nights(companies, scale=scale, tenants=tenants)
        took.append(went["took"])
        calls, addresses = len(waits.get("zerobounce.test", ())), len(waits.get(ADDRESSES, ()))
        told.append(f"{went['took']:.1f} s, {calls} verifier calls for {addresses} addresses")
        print(
            f"n={tenants} x {companies} companies, time divided by {scale:g}: {went['state']} "
            f"{went['reason']!r}, {told[-1]}; {went['counts']}",
            file=sys.stderr,
        )
    what = f"two tenants x {companies} companies beside one, all times divided by {scale:g}"
    return what, told[0], f"one {told[1]}", took[0] / took[1]


def main() -> list[tuple[str, str, str, float]]:
    first = clocked()
    (_, waits), (again, then) = nights(AGAIN, scale=1000, number=2)
    [(few, _)] = nights(FEW, scale=1000)
    [(many, _)] = nights(MANY, scale=1000)
    paid, paid_then = (
        sum(len(seen.get(f"{name}.test", ())) for name in PAID) for seen in (waits, then)
    )
    print(
        f"n={FEW}: {few['took']:.1f} s, {few['memory']:.0f} MB; n={MANY}: {many['took']:.1f} s, "
        f"{many['memory']:.0f} MB; n={AGAIN}, next night {again['took']:.1f} s, {again['state']}",
        file=sys.stderr,
    )
    return [
        first,
        together(),
        (
            f"peak memory of a night, {MANY} companies against {FEW} (no latency)",
            f"{many['memory']:.0f} MB",
            f"{few['memory']:.0f} MB",
            many["memory"] / few["memory"],
        ),
        (
            f"paid calls of the next night, nothing changed ({AGAIN} companies)",
            f"{paid_then}",
            f"first night {paid}",
            paid_then / paid,
        ),
    ]


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["serve", scale, world]:
            asyncio.run(serve(float(scale), int(world)))
        case ["night", address, companies, scale, *numbers]:
            asyncio.run(night(address, int(companies), float(scale), *map(int, numbers)))
        case ["fill", address, room, companies, scale, *numbers]:
            asyncio.run(fill(address, room, int(companies), float(scale), *map(int, numbers)))
        case ["clock", companies, scale]:
            print(*clocked(int(companies), float(scale)), sep=" | ")
        case ["tenants", companies, scale]:
            print(*together(int(companies), float(scale)), sep=" | ")
        case ["memory", *sizes]:
            for size in map(int, sizes):
                [(told, _)] = nights(size, scale=1000)
                print(f"{size} companies: {told['memory']:.0f} MB, {told['took']:.1f} s")
        case _:
            for row in main():
                print(*row, sep=" | ")
