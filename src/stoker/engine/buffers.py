"""Large buffers go back to the machine as soon as nobody needs them.

Pages of strangers are large now and then. Where the C library keeps what they took for another
time, in as many pools as there are threads, a long night takes more memory the longer it is. It
can be told not to; where there is no such thing to tell, nothing happens.
"""

from __future__ import annotations

import sys
from contextlib import suppress

_TRIM_ABOVE, _MAP_FROM, _POOLS = -1, -3, -8  # as mallopt(3) numbers them
_LARGE = 256 * 1024


def hand_back_large_buffers() -> None:
    """Tell the C library of this process; to be called before threads are begun."""
    if sys.platform != "linux":
        return
    import ctypes

    with suppress(AttributeError, OSError):
        library = ctypes.CDLL(None)
        for what, value in ((_MAP_FROM, _LARGE), (_TRIM_ABOVE, 2 * _LARGE), (_POOLS, 2)):
            library.mallopt(what, value)
