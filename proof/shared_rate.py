"""One rate shared by eight processes for a minute: never above it, and hardly anything wasted."""

from __future__ import annotations

import sys
from datetime import timedelta

from bench.limiter import MINUTE, SHARED, WORKERS, most_in_any, shared_by

USED = 0.95


def main(scale: float = 1.0) -> int:
    """Print what was used and the most any stretch saw; return how much of that is wrong."""
    lasting = max(MINUTE * min(scale, 1.0), timedelta(seconds=5))
    moments = shared_by(WORKERS, SHARED, lasting=lasting)
    allowed = SHARED.calls * (lasting / SHARED.per)
    used, most = len(moments) / allowed, most_in_any(moments, SHARED.per)
    print(
        f"{WORKERS} processes, {lasting.total_seconds():.0f} s: n={len(moments)} calls, "
        f"{used:.1%} of the rate used, most in any {SHARED.per.seconds} s: {most} of {SHARED.calls}"
    )
    return int(most > SHARED.calls) + int(used < USED)


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
