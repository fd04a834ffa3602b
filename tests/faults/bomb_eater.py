"""Fetches bombs in a process of its own and says how much memory that took, at its highest.

    python -m faults.bomb_eater ADDRESS WAY TIMES KIND...

`way` is ours, or swallowed: the same bytes undone in one go.
"""

import asyncio
import json
import sys
import zlib
from datetime import timedelta

from kit.memory import read_memory
from stoker.base.errors import StokerError
from stoker.http.client import HttpClient, Request

MOST = 5_000_000


async def eaten(address: str, way: str, times: int, kinds: list[str]) -> dict[str, object]:
    http = HttpClient(user_agent="Stoker test", sandbox=address)
    most, ends = 0, []

    async def fetch(path: str) -> bytes:
        call = Request(
            method="GET",
            url=f"http://site.test{path}",
            deadline=timedelta(seconds=60),
            max_bytes=MOST,
        )
        return (await http.send(call)).body

    await fetch("/ok")
    before = read_memory()
    for kind in kinds * times:
        try:
            if way == "swallowed":
                body = zlib.decompress(await fetch(f"/wire/{kind}"), 31)[:MOST]  # the twin
            else:
                body = await fetch(f"/bomb/{kind}")
            most = max(most, len(body))
            ends.append(kind)
        except StokerError as error:
            ends.append(f"{kind}: {type(error).__name__}")
    await http.close()
    return {"growth": read_memory() - before, "most": most, "ends": ends}


if __name__ == "__main__":
    place, manner, count, *names = sys.argv[1:]
    print(json.dumps(asyncio.run(eaten(place, manner, int(count), names))))
