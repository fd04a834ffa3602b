"""Boards, feeds and files as discovery reads them: each one source, batch by batch."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

from stoker.connectors.boards.files import Files
from stoker.core.posting_sources import WantedSource
from stoker.core.postings import Postings, PostingsAt, Validators
from stoker.sources import Connector


class AskedSource:
    """A `PostingSource` that a connector is asked for: a board or a feed, all of it at once."""

    def __init__(self, connector: Connector[PostingsAt, Postings], source: WantedSource) -> None:
        self._connector, self._source = connector, source

    async def read(self, known: Validators | None) -> AsyncIterator[Postings]:
        question = PostingsAt(place=self._source.place, company=self._source.company, known=known)
        done = await self._connector.ask(question, key=self._source.name)
        yield done.answer


class FileSource:
    """A `PostingSource` on disk; its path is taken from a directory."""

    def __init__(self, directory: Path, source: WantedSource) -> None:
        self._path, self._company = directory / source.place, source.company

    async def read(self, known: Validators | None) -> AsyncIterator[Postings]:
        async for batch in Files().batches(self._path, company=self._company):
            yield batch
