"""The SQLite store: one file, one writing thread, a few readers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from rota.clock import Clock
from rota.domain.access import Actor, Visibility
from rota.domain.job import Beat, Claim, Finish, Job, NewJob
from rota.errors import RotaError
from rota.store.base import (
    Beaten,
    Enqueued,
    JobType,
    Judge,
    Swept,
    TokenJudge,
    TokenRecord,
    TypeJudge,
)
from rota.store.batcher import MAX_BATCH_ROWS, Batcher, Kind, Member, deliver
from rota.store.migrate import read_migrations
from rota.store.sqlite import access, jobs
from rota.store.sqlite.connection import open_writer
from rota.store.sqlite.migrate import migrate
from rota.store.sqlite.readers import ReaderPool
from rota.store.sqlite.reading import SqliteReader
from rota.store.sqlite.transaction import Transaction
from rota.store.sqlite.writer import Writer

PACKAGE = "rota.store.sqlite"
JUDGE_SECONDS = 0.5
"""How often the tokens of parked claims are judged while nothing is announced."""
JOB_BYTES = 200
"""What a waiting job takes beside its payload, roughly."""

T = TypeVar("T")


class SqliteStore:
    """See :class:`rota.store.base.Store` for the contract. Belongs to the event loop that opened it."""

    def __init__(self, writer: Writer, batcher: Batcher, path: Path, clock: Clock) -> None:
        self._writer = writer
        self._batcher = batcher
        self._lists = ReaderPool(path)
        # Tokens and types are read apart, so that authentication never waits behind a search.
        self._access = ReaderPool(path, size=1)
        self._reader = SqliteReader(self._lists, self._access, clock, lambda: writer.version)
        self._judging = asyncio.create_task(self._judge_parked())

    @classmethod
    async def open(cls, path: Path, clock: Clock) -> SqliteStore:
        """Open (or create) the database, bring its schema up to date and start the writer.

        Raises StartError when the file cannot be used or was written by a newer release.
        """

        def opened() -> Writer:
            connection = open_writer(path)
            try:
                migrate(connection, read_migrations(PACKAGE), clock.now())
            except BaseException:
                connection.close()
                raise
            return Writer(connection, batcher, clock)

        batcher = Batcher()
        writer = await asyncio.to_thread(opened)
        writer.start()
        return cls(writer, batcher, path, clock)

    @property
    def reader(self) -> SqliteReader:
        return self._reader

    @property
    def commits(self) -> int:
        """Transactions committed since the start."""
        return self._writer.commits

    async def close(self) -> None:
        self._judging.cancel()
        self._batcher.close()
        await asyncio.to_thread(self._writer.join)
        await self._lists.close()
        await self._access.close()

    async def _judge_parked(self) -> None:
        while True:
            await asyncio.sleep(JUDGE_SECONDS)
            self._batcher.judge_parked()

    # --- the hot verbs ----------------------------------------------------------------------------

    async def enqueue(self, jobs: Sequence[NewJob], *, atomic: bool = False) -> list[Enqueued]:
        step = max(len(jobs), 1) if atomic else MAX_BATCH_ROWS
        parts = [jobs[at : at + step] for at in range(0, len(jobs), step)]
        return await self._all(
            Member(Kind.ENQUEUE, part, rows=len(part), size=sum(len(job.payload) + JOB_BYTES for job in part))
            for part in parts
        )

    async def claim(self, claim: Claim, *, wait_seconds: float = 0, judge: Judge | None = None) -> list[Job]:
        member = Member(Kind.CLAIM, claim, rows=claim.limit, parks=wait_seconds > 0, judge=judge)
        future: asyncio.Future[list[Job]]
        (future,) = self._batcher.submit(member)
        timer = member.loop.call_later(wait_seconds, deliver, [(member, [])]) if member.parks else None
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and future.exception() is None:
                self._writer.give_back(future.result())
            raise
        finally:
            if timer is not None:
                timer.cancel()

    async def finish(self, endings: Sequence[Finish], *, answer: bool = True) -> list[Job | RotaError | None]:
        parts = [endings[at : at + MAX_BATCH_ROWS] for at in range(0, len(endings), MAX_BATCH_ROWS)]
        return await self._all(
            Member(
                Kind.FINISH,
                (part, answer),
                rows=len(part),
                size=sum(len(each.result or b"") + JOB_BYTES for each in part),
            )
            for part in parts
        )

    async def heartbeat(self, beats: Sequence[Beat]) -> list[Beaten | RotaError]:
        parts = [beats[at : at + MAX_BATCH_ROWS] for at in range(0, len(beats), MAX_BATCH_ROWS)]
        return await self._all(
            Member(
                Kind.BEAT, part, rows=len(part), size=sum(len(each.log or "") + JOB_BYTES for each in part)
            )
            for part in parts
        )

    async def sweep(self) -> Swept:
        (future,) = self._batcher.submit(Member(Kind.SWEEP, None))
        swept: Swept = await future
        return swept

    async def _all(self, members: Iterable[Member]) -> list[Any]:
        """The results of one call's members in order. All have ended before an error of one is raised."""
        futures = self._batcher.submit(*members)
        if len(futures) == 1:
            return await futures[0]  # type: ignore[no-any-return]
        parts: list[Any] = await asyncio.gather(*futures, return_exceptions=True)
        for part in parts:
            if isinstance(part, BaseException):
                raise part
        return [each for part in parts for each in part]

    # --- administration ---------------------------------------------------------------------------

    async def _change(self, change: Callable[[Transaction], T]) -> T:
        (future,) = self._batcher.submit(Member(Kind.ADMIN, change))
        result: T = await future
        return result

    async def cancel(self, id: int, visibility: Visibility, actor: Actor) -> Job:
        return await self._change(lambda within: jobs.cancel(within, id, visibility))

    async def replay(self, id: int, visibility: Visibility, actor: Actor) -> Job:
        return await self._change(lambda within: jobs.replay(within, id, visibility))

    async def put_type(
        self, wanted: JobType, actor: Actor, judge: TypeJudge, *, keep_pause: bool = False
    ) -> tuple[JobType, bool]:
        def change(within: Transaction) -> tuple[JobType, bool]:
            within.announced_all = True
            return access.put_type(within.connection, within.now, wanted, judge, keep_pause=keep_pause)

        return await self._change(change)

    async def delete_type(self, name: str, actor: Actor, judge: TypeJudge) -> None:
        await self._change(lambda within: access.delete_type(within.connection, within.now, name, judge))

    async def pause_type(self, name: str, paused: bool, actor: Actor, judge: TypeJudge) -> JobType:
        def change(within: Transaction) -> JobType:
            within.announced_all = True
            return access.pause_type(within.connection, within.now, name, paused, judge)

        return await self._change(change)

    async def add_token(self, record: TokenRecord, actor: Actor) -> TokenRecord:
        return await self._change(lambda within: access.add_token(within.connection, within.now, record))

    async def rotate_token(
        self,
        key_id: str,
        secret_hash: bytes,
        pepper_key_id: str,
        grace_seconds: float,
        actor: Actor,
        judge: TokenJudge,
    ) -> TokenRecord:
        return await self._change(
            lambda within: access.rotate_token(
                within.connection, within.now, key_id, secret_hash, pepper_key_id, grace_seconds, judge
            )
        )

    async def revoke_token(self, key_id: str, actor: Actor, judge: TokenJudge) -> TokenRecord:
        def change(within: Transaction) -> TokenRecord:
            record = access.revoke_token(within.connection, within.now, key_id, judge)
            jobs.release_held(within, record.id)
            return record

        return await self._change(change)

    async def touch_tokens(self, used: Mapping[str, int]) -> None:
        await self._change(lambda within: access.touch_tokens(within.connection, used))

    async def reserve_calls(self, token_id: str, minute: int, units: int, limit: int) -> int:
        return await self._change(
            lambda within: access.reserve_calls(within.connection, token_id, minute, units, limit)
        )

    async def keep_fingerprint(self, fingerprint: str, previous: str | None) -> None:
        await self._change(lambda within: access.keep_fingerprint(within.connection, fingerprint, previous))
