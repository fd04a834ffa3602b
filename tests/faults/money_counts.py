"""What a crew counts, in memory that its processes share and that outlives them.

Each number has one writer, so that nobody has to lock. What the numbers mean for a promise is for
`money_trials.py` to say.
"""

import mmap
import struct
from enum import IntEnum

WIDTH = struct.calcsize("q")


class Count(IntEnum):
    """What each worker counts of itself; the last two are the watcher's."""

    BEGUN = 0  # verbs asked of the store
    DONE = 1  # verbs that the store acknowledged: operations
    GAVE_WAY = 2  # verbs that the store declined, with nothing done
    GRANTED = 3
    REFUSED = 4
    SETTLED = 5  # by the owner of the reservation; others that settle it later are not counted
    LOOKS = 6
    BREACHES = 7


class Counts:
    """One row of numbers for each worker, and one for the watcher."""

    def __init__(self, workers: int) -> None:
        self.watcher = workers
        self._rows = workers + 1
        self._memory = mmap.mmap(-1, WIDTH * len(Count) * self._rows)

    def add(self, worker: int, count: Count, number: int = 1) -> None:
        struct.pack_into(
            "q", self._memory, self._place(worker, count), self.of(worker, count) + number
        )

    def of(self, worker: int, count: Count) -> int:
        return int(struct.unpack_from("q", self._memory, self._place(worker, count))[0])

    def all(self, count: Count) -> int:
        return sum(self.of(worker, count) for worker in range(self._rows))

    def under_way(self, worker: int) -> int:
        """Return how many verbs a worker waits for, or was waiting for when it died."""
        ended = self.of(worker, Count.DONE) + self.of(worker, Count.GAVE_WAY)
        return self.of(worker, Count.BEGUN) - ended

    def _place(self, worker: int, count: Count) -> int:
        return WIDTH * (worker * len(Count) + count)
