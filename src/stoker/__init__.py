"""Which accounts to look at, when, how deep and at what cost; and why not the others."""

__version__ = "0.1.0"
