"""How much memory this process has."""

from pathlib import Path


def read_memory(name: str = "VmHWM") -> int:
    """Return bytes: at their highest, what the parent had apart; with `VmRSS`, now."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition(f"{name}:")[2].split()[0]) * 1024
