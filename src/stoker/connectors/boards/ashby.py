"""Ashby's public job boards: one answer with everything; what is not listed is not for us."""

from __future__ import annotations

from stoker.connectors.boards.asking import asked, board_name, json_of
from stoker.connectors.http import Http
from stoker.core.model import Json
from stoker.core.picking import has_list, list_in, object_in, words_in
from stoker.core.postings import MOST_POSTINGS, Postings, RawPosting, Validators, taken
from stoker.errors import TransientError

NAME = "ashby"
BASE_URL = "https://api.ashbyhq.com"


class Ashby:
    """Reads boards."""

    name = NAME

    def __init__(self, http: Http, *, base_url: str = BASE_URL) -> None:
        self._http, self._base = http, base_url.rstrip("/")

    async def postings(
        self, board: str, *, company: str = "", known: Validators | None = None
    ) -> Postings:
        """Return what is open on a board. Raises as `asked`; one bad posting loses no other."""
        url = f"{self._base}/posting-api/job-board/{board_name(board)}"
        answer = await asked(self._http, url, known=known)
        if answer.body is None:
            return Postings(unchanged=True, validators=answer.validators)
        data = json_of(answer, name=NAME)
        if not has_list(data, "jobs"):
            raise TransientError(f"{NAME} did not answer with a list of jobs")
        jobs = list_in(data, "jobs", most=MOST_POSTINGS + 1)
        listed = [each for each in jobs if object_in(each).get("isListed") is not False]
        return taken(
            NAME,
            [_raw(each, nth) for nth, each in enumerate(listed)],
            company=company or board,
            validators=answer.validators,
        )


def _raw(job: Json, nth: int) -> RawPosting:
    return RawPosting(
        where=f"job {nth}",
        url=words_in(job, "jobUrl", longest=4_000),
        title=words_in(job, "title", longest=4_000),
        location=words_in(job, "location", longest=4_000),
        posted=object_in(job).get("publishedAt"),
    )
