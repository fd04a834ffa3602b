"""data-gov.test: the open-data portal that publishes the register, letter by letter.

A collection lists its datasets; a download is initiated, asked after until it is ready, and then
fetched from a signed address. The rows are `registry.py`'s.
"""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Iterator
from hashlib import sha256

from stoker.base.types import Json
from stoker.sandbox.faults import Dials, dialled
from stoker.sandbox.http import Asked, Handler, Told, json_told
from stoker.sandbox.meter import Tallies
from stoker.sandbox.world.companies import World
from stoker.sandbox.world.register import RELEASES, lines

NAME = "data_gov"

HOST = "data-gov.test"

COLLECTION = "2"

PARTS = (*string.ascii_uppercase, "Others")

_PIECE = 64 * 1024

_NAMES = {429: (24, "TOO_MANY_REQUESTS"), 403: (3, "FORBIDDEN"), 404: (4, "REAL_NOT_FOUND")}


def data_gov(world: World, dials: Dials, tallies: Tallies) -> Handler:
    """Return the portal's handler. From the dial's night 1 on it has the later release."""
    portal = _Portal(world, dials)
    return dialled(
        NAME, portal.answer, seed=world.seed, dials=dials, tallies=tallies, refused=_refused
    )


def dataset_id(world: World, part: str) -> str:
    """Return the id under which a part of the register is published."""
    return "d_" + sha256(f"{world.seed} dataset {part}".encode()).hexdigest()[:32]


def _refused(status: int) -> Told:
    code, name = _NAMES.get(status, (1, "GENERIC_INTERNAL_SERVER_ERROR"))
    return json_told(
        {"code": code, "name": name, "data": None, "errorMsg": name.replace("_", " ").lower()},
        status=status,
    )


class _Portal:
    def __init__(self, world: World, dials: Dials) -> None:
        self._world, self._dials = world, dials
        self._part_of = {dataset_id(world, part): part for part in PARTS}
        self._polls: Counter[str] = Counter()

    def answer(self, asked: Asked) -> Told:
        match asked.method, asked.path.strip("/").split("/"):
            case "GET", ["v2", "public", "api", "collections", str(which), "metadata"]:
                if which != COLLECTION:
                    return _refused(404)
                return json_told(self._metadata(asked))
            case "GET", ["v1", "public", "api", "datasets", str(id_), str(what)]:
                return self._download(id_, what)
            case "GET", ["files", str(name)]:
                return self._file(name, asked.argument("signature"))
        return _refused(404)

    def _release(self) -> str:
        return RELEASES[1 if self._dials.of(NAME).night > 0 else 0]

    def _metadata(self, asked: Asked) -> Json:
        updated = f"{self._release()}T12:00:00+08:00"
        data: dict[str, Json] = {
            "collectionMetadata": {
                "collectionId": COLLECTION,
                "name": "ACRA Information on Corporate Entities",
                "description": "Entities registered, by the first letter of their names",
                "createdAt": "2023-01-01T12:00:00+08:00",
                "lastUpdatedAt": updated,
                "frequency": "Monthly",
                "managedByAgencyName": "Accounting and Corporate Regulatory Authority",
                "childDatasets": list(self._part_of),
            }
        }
        if asked.argument("withDatasetMetadata").lower() == "true":
            data["datasetMetadata"] = [
                {
                    "datasetId": id_,
                    "name": f"ACRA Information on Corporate Entities ('{part}')",
                    "status": "active",
                    "format": "CSV",
                    "lastUpdatedAt": updated,
                    "coverageEnd": updated,
                    "managedBy": "Accounting and Corporate Regulatory Authority",
                }
                for id_, part in self._part_of.items()
            ]
        return {"code": 0, "data": data, "errorMsg": ""}

    def _download(self, id_: str, what: str) -> Told:
        if id_ not in self._part_of:
            return _refused(404)
        if what == "initiate-download":
            self._polls[id_] = 0
            said: Json = {"message": "Download successfully initiated. Poll for its status."}
            return json_told({"code": 0, "data": said, "errorMsg": ""}, status=201)
        if what != "poll-download":
            return _refused(404)
        self._polls[id_] += 1
        if self._polls[id_] == 1:
            return json_told(
                {"code": 0, "data": {"status": "DOWNLOAD_PENDING"}, "errorMsg": ""}, status=201
            )
        name = f"{id_}-{self._release()}.csv"
        url = f"http://{HOST}/files/{name}?signature={self._signature(name)}"
        ready: Json = {"status": "DOWNLOAD_SUCCESS", "url": url}
        return json_told({"code": 0, "data": ready, "errorMsg": ""}, status=201)

    def _file(self, name: str, signature: str) -> Told:
        id_, _, release = name.removesuffix(".csv").partition("-")
        if signature != self._signature(name) or id_ not in self._part_of:
            body = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
            return Told(status=403, headers={"content-type": "application/xml"}, body=body)
        part = self._part_of[id_]
        return Told(
            headers={
                "content-type": "text/csv",
                "content-disposition": f'attachment; filename="ACRA{part}.csv"',
                "etag": f'"{self._signature(name)[:32]}"',
            },
            stream=_pieces(lines(self._world, release=release, part=part)),
        )

    def _signature(self, name: str) -> str:
        return sha256(f"{self._world.seed} signed {name}".encode()).hexdigest()


def _pieces(rows: Iterator[str]) -> Iterator[bytes]:
    waiting: list[bytes] = []
    size = 0
    for row in rows:
        waiting.append(row.encode())
        size += len(waiting[-1])
        if size >= _PIECE:
            yield b"".join(waiting)
            waiting, size = [], 0
    if waiting:
        yield b"".join(waiting)
