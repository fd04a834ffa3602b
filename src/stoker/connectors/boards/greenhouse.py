"""Greenhouse's public job boards: one answer with everything a company has open."""

from __future__ import annotations

from stoker.connectors.boards.asking import asked, board_name, json_of
from stoker.connectors.http import Http
from stoker.core.model import Json
from stoker.core.picking import has_list, list_in, object_in, words_in
from stoker.core.postings import MOST_POSTINGS, Postings, RawPosting, Validators, taken
from stoker.errors import TransientError

NAME = "greenhouse"
BASE_URL = "https://boards-api.greenhouse.io"


class Greenhouse:
    """Reads boards."""

    name = NAME

    def __init__(self, http: Http, *, base_url: str = BASE_URL) -> None:
        self._http, self._base = http, base_url.rstrip("/")

    async def postings(
        self, board: str, *, company: str = "", known: Validators | None = None
    ) -> Postings:
        """Return what is open on a board. Raises as `asked`; one bad posting loses no other."""
        url = f"{self._base}/v1/boards/{board_name(board)}/jobs"
        answer = await asked(self._http, url, known=known)
        if answer.body is None:
            return Postings(unchanged=True, validators=answer.validators)
        data = json_of(answer, name=NAME)
        if not has_list(data, "jobs"):
            raise TransientError(f"{NAME} did not answer with a list of jobs")
        jobs = list_in(data, "jobs", most=MOST_POSTINGS + 1)
        return taken(
            NAME,
            [_raw(each, nth) for nth, each in enumerate(jobs)],
            company=company or board,
            validators=answer.validators,
        )


def _raw(job: Json, nth: int) -> RawPosting:
    fields = object_in(job)
    return RawPosting(
        where=f"job {nth}",
        url=words_in(job, "absolute_url", longest=4_000),
        title=words_in(job, "title", longest=4_000),
        company=words_in(job, "company_name", longest=4_000),
        location=words_in(fields.get("location"), "name", longest=4_000),
        posted=fields.get("first_published") or fields.get("updated_at"),
    )
