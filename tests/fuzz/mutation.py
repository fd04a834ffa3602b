"""Changes bytes a little, as a search for what breaks a reader does. Same chance, same bytes."""

import random
from collections.abc import Sequence

MAX_BYTES = 20_000
MARKS = b"=:,<>[]{}\"'\n\r;&"
ODD = (
    b"\0",
    b"\xff",
    b"\xed\xa0\x80",
    b"\xc3",
    b"\xe2\x80\xae",
    b"\r",
    b"\x85",
    b"9" * 400,
    b" " * 300,
)


def mutate(
    data: bytes, rng: random.Random, *, others: Sequence[bytes], words: Sequence[bytes] = ()
) -> bytes:
    """Return the data with a few changes: pieces of the others, words of its format, odd bytes."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4, 8))):
        start = rng.randrange(len(out) + 1)
        if rng.random() < 0.5:  # where something of the format begins or ends
            start = next((at for at in range(start, len(out)) if out[at] in MARKS), start)
            start = min(len(out), start + rng.randrange(3))
        end = min(len(out), start + rng.choice((1, 1, 4, 16, 64)))
        match rng.randrange(8):
            case 0:
                del out[start:end]
            case 1:
                out[start:start] = out[start:end] * rng.choice((1, 2, 50))
            case 2:
                out[start:start] = rng.choice([*words, *ODD])
            case 3:
                out[start:end] = rng.choice([*words, *ODD])
            case 4:
                out[start:start] = rng.choice([*words, *ODD]) * rng.choice((3, 70, 1500))
            case 5 if out:
                out[start % len(out)] ^= 1 << rng.randrange(8)
            case 6:
                other = rng.choice(others)
                cut = rng.randrange(len(other) + 1)
                out[start:] = other[cut:]
            case _:
                del out[start:]
        del out[MAX_BYTES:]
    return bytes(out)
