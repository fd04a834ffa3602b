"""Stores and backends of which a naive twin does one verb differently."""

from dataclasses import replace


class Wrapped:
    """Passes every verb on to the inner store or backend; a twin overrides some."""

    def __init__(self, inner):
        self._inner = inner

    def __getattr__(self, name):
        return getattr(self._inner, name)


def wrap_store(name, twin):
    """Return a class of backends whose tenants' stores of that name are wrapped in the twin."""

    class WrappedBackend(Wrapped):
        def tenant(self, tenant):
            stores = self._inner.tenant(tenant)
            return replace(stores, **{name: twin(getattr(stores, name))})

    return WrappedBackend
