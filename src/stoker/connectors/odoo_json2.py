"""Odoo's JSON-2 protocol, from version 19 on: one POST with named arguments is one call.

It knows which failures mean what. A server's error body has a traceback in it, so nothing of it
goes further than this file. Which calls are made is `odoo`'s business.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

from stoker.connectors.billing import usable_key
from stoker.connectors.http import Http
from stoker.connectors.vendor import Answered, Failure, Vendor
from stoker.core.model import Json
from stoker.core.picking import list_in, text_in, whole_in
from stoker.errors import ConfigError, PermanentError, StokerError, TransientError, UncertainError

NAME = "odoo"
FAILURES: Mapping[int, Failure] = {
    401: Failure(ConfigError, "refuses our key; make a new one there, they last three months"),
    403: Failure(ConfigError, "does not let our user do this; give it sales and contact rights"),
    404: Failure(PermanentError, "does not have this model, record or method"),
}
# Classes of errors that come again with the same call; every other 500 may have been bad luck.
_LASTING = ("builtins.", "odoo.exceptions.")
_MET = ("SerializationFailure", "DeadlockDetected", "LockNotAvailable", "ConcurrencyError")


class Json2:
    """One database of one server, called with our key."""

    name = "JSON-2"
    names_all = False  # `external_ids` says one of a record's, whoever's it is

    def __init__(
        self, http: Http, *, url: str, database: str, key: str, deadline: timedelta
    ) -> None:
        self._vendor = Vendor(
            http,
            name=NAME,
            base_url=url,
            headers={
                "Authorization": f"bearer {usable_key(NAME, key)}",
                "X-Odoo-Database": database,
            },
            deadline=deadline,
            failures=FAILURES,
            judge=_judged,
        )

    async def call(
        self,
        model: str,
        method: str,
        arguments: Mapping[str, Json],
        *,
        ids: Sequence[int] | None = None,
        context: Mapping[str, Json] | None = None,
    ) -> Json:
        """Call a method that may be called twice, and return its result.

        Raises TransientError when later may work, also when the answer was lost; PermanentError
        and ConfigError as they say.
        """
        body: dict[str, Json] = dict(arguments)
        if ids is not None:
            body["ids"] = list(ids)
        if context:
            body["context"] = context
        try:
            answered = await self._vendor.post(f"/json/2/{model}/{method}", body)
        except UncertainError as error:
            raise lost(error) from error
        return answered.data

    async def external_ids(self, model: str, ids: Sequence[int]) -> dict[int, tuple[str, ...]]:
        """Return one external id of each record, empty for those that have none."""
        told = await self.call(model, "get_external_id", {}, ids=ids)
        return {id_: (text_in(told, str(id_)),) for id_ in ids}

    async def all_external_ids(self, model: str, ids: Sequence[int]) -> dict[int, tuple[str, ...]]:
        """Return every external id of records; a record has several once people merged it."""
        return external_ids_in(await self.call(model, "get_metadata", {}, ids=ids))


def external_ids_in(metadata: Json) -> dict[int, tuple[str, ...]]:
    """Return the external ids that a server's word on its records holds, by record."""
    named: dict[int, tuple[str, ...]] = {}
    for record in metadata if isinstance(metadata, list) else ():
        id_ = whole_in(record, "id")
        others = [text_in(each, "xmlid") for each in list_in(record, "xmlids", most=100)]
        if id_ is not None:
            named[id_] = (text_in(record, "xmlid"), *others)
    return named


def lost(error: UncertainError) -> TransientError:
    """Return what a lost answer means where doing it twice is doing it once."""
    return TransientError(f"{error}; it is safe to do it again")


def _judged(answered: Answered) -> StokerError | None:
    name = text_in(answered.data, "name")
    if name.endswith(_MET):
        return TransientError("odoo was changing the same record for somebody else")
    if answered.status == 500 and name.startswith(_LASTING):
        return PermanentError("odoo cannot do this call (500)")
    return None
