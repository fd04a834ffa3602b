"""Odoo's XML-RPC protocol, for servers before version 19: who we are is asked for once.

The protocol wants our key in every body, so bodies are never shown. Faults carry tracebacks, so
only their numbers count, and the few words that mean: again. Which calls are made is `odoo`'s
business.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

from stoker.connectors.billing import usable_key
from stoker.connectors.http import Http
from stoker.connectors.odoo_json2 import NAME, external_ids_in, lost
from stoker.connectors.vendor import Failure, Vendor
from stoker.connectors.xml_values import Fault, read_answer, written
from stoker.core.model import Json
from stoker.errors import ConfigError, PermanentError, StokerError, TransientError, UncertainError

_AGAIN = ("could not serialize", "deadlock detected", "concurrent update")
_DENIED, _NO_RIGHT = 3, 4


class XmlRpc:
    """One database of one server, called as one user."""

    name = "XML-RPC"
    names_all = True  # `external_ids` says every one of a record's

    def __init__(
        self, http: Http, *, url: str, database: str, login: str, key: str, deadline: timedelta
    ) -> None:
        self._vendor = Vendor(
            http,
            name=NAME,
            base_url=url,
            headers={},
            deadline=deadline,
            failures={404: Failure(ConfigError, "offers no XML-RPC; check its address")},
        )
        if not login:
            raise ConfigError("odoo before version 19 needs the user's login beside its key")
        self._database, self._login = database, login
        self._key = usable_key(NAME, key)
        self._uid: int | None = None

    async def version(self) -> Json:
        """Return what the server says of its version; no key is needed."""
        return await self._called("common", "version", ())

    async def call(
        self,
        model: str,
        method: str,
        arguments: Mapping[str, Json],
        *,
        ids: Sequence[int] | None = None,
        context: Mapping[str, Json] | None = None,
    ) -> Json:
        """Call a method that may be called twice, and return its result. Raises as `Json2`."""
        uid = self._uid or await self._authenticated()
        places: list[Json] = [] if ids is None else [list(ids)]
        named = {**arguments, **({"context": context} if context else {})}
        params: tuple[Json, ...] = (self._database, uid, self._key, model, method, places, named)
        return await self._called("object", "execute_kw", params)

    async def external_ids(self, model: str, ids: Sequence[int]) -> dict[int, tuple[str, ...]]:
        """Return every external id of records, empty for those that have none."""
        # `get_external_id` has numbers for keys, which XML-RPC cannot write: it ends in a fault.
        return external_ids_in(await self.call(model, "get_metadata", {}, ids=ids))

    all_external_ids = external_ids

    async def _authenticated(self) -> int:
        params: tuple[Json, ...] = (self._database, self._login, self._key, {})
        uid = await self._called("common", "authenticate", params)
        if isinstance(uid, bool) or not isinstance(uid, int):
            raise ConfigError("odoo refuses our login and key; check them in the settings")
        self._uid = uid
        return uid

    async def _called(self, service: str, method: str, params: tuple[Json, ...]) -> Json:
        body = written(method, params)
        try:
            reply = await self._vendor.send(
                "POST", f"/xmlrpc/2/{service}", body=body, headers={"content-type": "text/xml"}
            )
        except UncertainError as error:
            raise lost(error) from error
        try:
            answer = read_answer(reply.body)
        except PermanentError as error:
            raise TransientError(
                "odoo gave an unreadable answer; it is safe to ask again"
            ) from error
        if isinstance(answer, Fault):
            raise _failure(answer)
        return answer


def _failure(fault: Fault) -> StokerError:
    if any(words in fault.text for words in _AGAIN):
        return TransientError("odoo was changing the same record for somebody else")
    if fault.code == _DENIED:
        return ConfigError("odoo refuses our login and key; check them in the settings")
    if fault.code == _NO_RIGHT:
        return ConfigError("odoo does not let our user do this; give it sales and contact rights")
    return PermanentError(f"odoo cannot do this call (fault {fault.code})")
