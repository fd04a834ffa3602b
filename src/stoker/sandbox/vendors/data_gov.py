"""data-gov.test: the open-data portal that publishes the register, letter by letter.

A collection lists its datasets; a download is started, polled until it is ready, and then fetched
from a signed URL.
"""

from __future__ import annotations

import string
from collections import Counter
from hashlib import sha256

from stoker.base.types import Json
from stoker.sandbox.faults import FaultSettingsTable, wrap_with_faults
from stoker.sandbox.http import Handler, Request, Response, to_json_response
from stoker.sandbox.meter import Meter
from stoker.sandbox.world.companies import World
from stoker.sandbox.world.register import RELEASES, iterate_lines, iterate_pieces

NAME = "data_gov"
HOST = "data-gov.test"
COLLECTION = "2"
PARTS = (*string.ascii_uppercase, "Others")
_NAMES = {429: (24, "TOO_MANY_REQUESTS"), 403: (3, "FORBIDDEN"), 404: (4, "REAL_NOT_FOUND")}


def build_data_gov_handler(world: World, dials: FaultSettingsTable, meter: Meter) -> Handler:
    """Return the portal's handler. From the dial's night 1 on it has the later release."""
    portal = _Portal(world, dials)
    return wrap_with_faults(
        NAME, portal.answer, seed=world.seed, dials=dials, meter=meter, refused=_build_refusal
    )


def get_dataset_id(world: World, part: str) -> str:
    return "d_" + sha256(f"{world.seed} dataset {part}".encode()).hexdigest()[:32]


def _build_refusal(status: int) -> Response:
    code, name = _NAMES.get(status, (1, "GENERIC_INTERNAL_SERVER_ERROR"))
    return to_json_response(
        {"code": code, "name": name, "data": None, "errorMsg": name.replace("_", " ").lower()},
        status=status,
    )


class _Portal:
    def __init__(self, world: World, dials: FaultSettingsTable) -> None:
        self._world, self._dials = world, dials
        self._part_of = {get_dataset_id(world, part): part for part in PARTS}
        self._polls: Counter[str] = Counter()

    def answer(self, request: Request) -> Response:
        match request.method, request.path.strip("/").split("/"):
            case "GET", ["v2", "public", "api", "collections", str(which), "metadata"]:
                if which != COLLECTION:
                    return _build_refusal(404)
                return to_json_response(self._to_metadata(request))
            case "GET", ["v1", "public", "api", "datasets", str(id_), str(what)]:
                return self._answer_download(id_, what)
            case "GET", ["files", str(name)]:
                return self._answer_file(name, request.get_argument("signature"))
        return _build_refusal(404)

    def _get_release(self) -> str:
        return RELEASES[1 if self._dials.get_settings(NAME).night > 0 else 0]

    def _to_metadata(self, request: Request) -> Json:
        updated = f"{self._get_release()}T12:00:00+08:00"
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
        if request.get_argument("withDatasetMetadata").lower() == "true":
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

    def _answer_download(self, id_: str, what: str) -> Response:
        if id_ not in self._part_of:
            return _build_refusal(404)
        if what == "initiate-download":
            self._polls[id_] = 0
            data: Json = {"message": "Download successfully initiated. Poll for its status."}
            return to_json_response({"code": 0, "data": data, "errorMsg": ""}, status=201)
        if what != "poll-download":
            return _build_refusal(404)
        self._polls[id_] += 1
        if self._polls[id_] == 1:
            return to_json_response(
                {"code": 0, "data": {"status": "DOWNLOAD_PENDING"}, "errorMsg": ""}, status=201
            )
        name = f"{id_}-{self._get_release()}.csv"
        url = f"http://{HOST}/files/{name}?signature={self._compute_signature(name)}"
        ready: Json = {"status": "DOWNLOAD_SUCCESS", "url": url}
        return to_json_response({"code": 0, "data": ready, "errorMsg": ""}, status=201)

    def _answer_file(self, name: str, signature: str) -> Response:
        id_, _, release = name.removesuffix(".csv").partition("-")
        if signature != self._compute_signature(name) or id_ not in self._part_of:
            body = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
            return Response(status=403, headers={"content-type": "application/xml"}, body=body)
        part = self._part_of[id_]
        return Response(
            headers={
                "content-type": "text/csv",
                "content-disposition": f'attachment; filename="ACRA{part}.csv"',
                "etag": f'"{self._compute_signature(name)[:32]}"',
            },
            stream=iterate_pieces(iterate_lines(self._world, release=release, part=part)),
        )

    def _compute_signature(self, name: str) -> str:
        return sha256(f"{self._world.seed} signed {name}".encode()).hexdigest()


HOSTS = {"data-gov.test": build_data_gov_handler}
