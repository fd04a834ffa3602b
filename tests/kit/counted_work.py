"""Work counted in calls, which is the same on every machine however busy."""

import sys
from collections import Counter
from contextlib import contextmanager


@contextmanager
def counted_calls():
    """Count the calls of functions in a block, those in C included, by the function's name."""
    calls = Counter()

    def note(frame, event, function):
        if event == "call":
            calls[frame.f_code.co_name] += 1
        elif event == "c_call":
            calls[function.__name__] += 1

    sys.setprofile(note)
    try:
        yield calls
    finally:
        sys.setprofile(None)
