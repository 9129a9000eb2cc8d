"""The SQLite store: one file, one writing thread, a few readers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from rota.clock import Clock
from rota.domain.access import Actor, Visibility
from rota.domain.audit import Refusal, Seal, Sealer, differences
from rota.domain.job import Beat, Claim, Finish, Job, NewJob
from rota.errors import RotaError
from rota.store.base import (
    Beaten,
    Enqueued,
    JobJudge,
    JobType,
    Judge,
    Swept,
    TokenJudge,
    TokenRecord,
    TypeJudge,
    WorkerJudge,
)
from rota.store.batcher import MAX_BATCH_ROWS, Batcher, Kind, Member, deliver
from rota.store.migrate import read_migrations
from rota.store.records import Action, Announcement, QueueRecord, WorkerRecord
from rota.store.sqlite import access, audit, bulk, jobs, queues, workers
from rota.store.sqlite.connection import open_writer
from rota.store.sqlite.migrate import migrate
from rota.store.sqlite.readers import ReaderPool
from rota.store.sqlite.reading import SqliteReader
from rota.store.sqlite.transaction import Transaction
from rota.store.sqlite.writer import Writer
from rota.telemetry import Telemetry

PACKAGE = "rota.store.sqlite"
JUDGE_SECONDS = 0.5
"""How often the tokens of parked claims are judged while nothing is announced."""
JOB_BYTES = 200
"""What a waiting job takes beside its payload, roughly."""

NOT_OF_A_TYPE = frozenset({"name", "created_at", "updated_at", "deleted"})
"""Fields of a stored type that nobody sets; its name is the audit's object."""

T = TypeVar("T")


class SqliteStore:
    """See :class:`rota.store.base.Store` for the contract. Belongs to the event loop that opened it."""

    def __init__(self, writer: Writer, batcher: Batcher, path: Path, clock: Clock) -> None:
        self._writer = writer
        self._batcher = batcher
        self._lists = ReaderPool(path)
        # Tokens and types are read apart, so that authentication never waits behind a search.
        self._access = ReaderPool(path, size=1)
        # So are counts and the walks of sweeps and bulk actions: no list waits behind them.
        self._walks = ReaderPool(path, size=1)
        self._reader = SqliteReader(self._lists, self._access, self._walks, clock, lambda: writer.version)
        self._judging = asyncio.create_task(self._judge_parked())

    @classmethod
    async def open(cls, path: Path, clock: Clock, telemetry: Telemetry | None = None) -> SqliteStore:
        """Open (or create) the database, bring its schema up to date and start the writer.

        What is done is counted in ``telemetry``.
        Raises StartError when the file cannot be used or was written by a newer release.
        """

        def opened() -> Writer:
            connection = open_writer(path)
            try:
                migrate(connection, read_migrations(PACKAGE), clock.now())
            except BaseException:
                connection.close()
                raise
            return Writer(connection, batcher, clock, counted)

        batcher, counted = Batcher(), telemetry or Telemetry()
        writer = await asyncio.to_thread(opened)
        writer.start()
        return cls(writer, batcher, path, clock)

    @property
    def reader(self) -> SqliteReader:
        return self._reader

    @property
    def telemetry(self) -> Telemetry:
        return self._writer.telemetry

    @property
    def commits(self) -> int:
        """Transactions committed since the start."""
        return self._writer.telemetry.commits

    def writes(self) -> bool:
        return self._writer.works

    async def close(self) -> None:
        self._judging.cancel()
        self._batcher.close()
        await asyncio.to_thread(self._writer.join)
        await self._lists.close()
        await self._access.close()
        await self._walks.close()

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

    async def _audited(
        self,
        actor: Actor,
        action: str,
        about: tuple[str, str | int | None],
        change: Callable[[Transaction], T],
        told: Callable[[T], Mapping[str, object]] = lambda _: audit.NOTHING,
    ) -> T:
        """Make a change and note it in the same transaction; ``told`` gives the fields that it touched."""

        def noted(within: Transaction) -> T:
            result = change(within)
            audit.record(within, actor, action, about, told(result))
            return result

        return await self._change(noted)

    async def _change_many(self, change: Callable[[Transaction], T], ids: Sequence[int]) -> T:
        (future,) = self._batcher.submit(Member(Kind.BULK, change, rows=len(ids)))
        result: T = await future
        return result

    async def cancel(self, id: int, visibility: Visibility, actor: Actor) -> Job:
        return await self._audited(
            *(actor, "job.cancel", ("job", id), lambda within: jobs.cancel(within, id, visibility)),
            lambda job: {"status": job.status, "cancel_requested": bool(job.cancel_requested)},
        )

    async def replay(
        self, id: int, visibility: Visibility, actor: Actor, judge: JobJudge | None = None
    ) -> Job:
        return await self._audited(
            *(actor, "job.replay", ("job", id), lambda within: jobs.replay(within, id, visibility, judge)),
            lambda job: {"status": job.status},
        )

    async def delete(
        self, id: int, visibility: Visibility, actor: Actor, judge: JobJudge | None = None
    ) -> None:
        await self._audited(
            actor, "job.delete", ("job", id), lambda within: bulk.delete(within, id, visibility, judge)
        )

    async def change(
        self,
        id: int,
        visibility: Visibility,
        actor: Actor,
        *,
        priority: int | None = None,
        run_at: int | None = None,
        reschedule: bool = False,
    ) -> Job:
        asked: dict[str, object] = {} if priority is None else {"priority": priority}
        if reschedule:
            asked["run_at"] = run_at
        return await self._audited(
            *(actor, "job.change", ("job", id)),
            lambda within: bulk.change(
                within, id, visibility, priority=priority, run_at=run_at, reschedule=reschedule
            ),
            lambda _: asked,
        )

    async def act(
        self,
        action: Action,
        ids: Sequence[int],
        statuses: frozenset[str],
        visibility: Visibility,
        actor: Actor,
        asked: Mapping[str, object] | None = None,
    ) -> list[int]:
        def change(within: Transaction) -> list[int]:
            done = bulk.act(within, action, ids, statuses, visibility)
            told = {f"filter.{name}": value for name, value in (asked or {}).items()}
            told |= {"done": len(done)}
            if done:
                told |= {"lowest_id": min(done), "highest_id": max(done)}
            audit.record(within, actor, f"jobs.{action}", ("job", None), told)
            return done

        return await self._change_many(change, ids)

    async def purge(self, ids: Sequence[int], finished_before: int) -> int:
        return await self._change_many(lambda within: bulk.purge(within, ids, finished_before), ids)

    async def put_queue(self, name: str, paused: bool | None, actor: Actor) -> tuple[QueueRecord, bool]:
        return await self._audited(
            *(actor, "queue.put", ("queue", name), lambda within: queues.put_queue(within, name, paused)),
            lambda put: {"paused": put[0].paused} if put[1] or paused is not None else {},
        )

    async def pause_queue(self, name: str, paused: bool, actor: Actor) -> QueueRecord:
        return await self._audited(
            *(actor, f"queue.{_pausing(paused)}", ("queue", name)),
            lambda within: queues.pause_queue(within, name, paused),
            lambda _: {"paused": paused},
        )

    async def announce_worker(self, wanted: Announcement) -> bool:
        return await self._change_many(lambda within: workers.announce(within, wanted), [1])

    async def drain_worker(self, id: int, actor: Actor, judge: WorkerJudge) -> WorkerRecord:
        return await self._audited(
            *(actor, "worker.drain", ("worker", id), lambda within: workers.drain(within, id, judge)),
            lambda stored: {"instance": stored.instance},
        )

    async def forget_workers(self, seen_before: int) -> int:
        return await self._change_many(lambda within: workers.forget(within, seen_before), [1])

    async def put_type(
        self, wanted: JobType, actor: Actor, judge: TypeJudge, *, keep_pause: bool = False
    ) -> tuple[JobType, bool]:
        def change(within: Transaction) -> tuple[JobType, bool]:
            within.announced_all = True
            before: list[JobType] = []

            def seen(existing: JobType) -> None:
                judge(existing)
                before.append(existing)

            stored, new = access.put_type(within.connection, within.now, wanted, seen, keep_pause=keep_pause)
            changed = differences(before[0] if before else None, stored, apart=NOT_OF_A_TYPE)
            action = "type.create" if new else "type.replace"
            audit.record(within, actor, action, ("type", stored.name), changed)
            return stored, new

        return await self._change(change)

    async def delete_type(self, name: str, actor: Actor, judge: TypeJudge) -> None:
        await self._audited(
            *(actor, "type.delete", ("type", name)),
            lambda within: access.delete_type(within.connection, within.now, name, judge),
        )

    async def pause_type(self, name: str, paused: bool, actor: Actor, judge: TypeJudge) -> JobType:
        def change(within: Transaction) -> JobType:
            within.announced_all = True
            return access.pause_type(within.connection, within.now, name, paused, judge)

        return await self._audited(
            actor, f"type.{_pausing(paused)}", ("type", name), change, lambda _: {"paused": paused}
        )

    async def add_token(self, record: TokenRecord, actor: Actor) -> TokenRecord:
        return await self._audited(
            *(actor, "token.create", ("token", record.key_id)),
            lambda within: access.add_token(within.connection, within.now, record),
            _rights,
        )

    async def rotate_token(
        self,
        key_id: str,
        secret_hash: bytes,
        pepper_key_id: str,
        grace_seconds: float,
        actor: Actor,
        judge: TokenJudge,
    ) -> TokenRecord:
        return await self._audited(
            *(actor, "token.rotate", ("token", key_id)),
            lambda within: access.rotate_token(
                within.connection, within.now, key_id, secret_hash, pepper_key_id, grace_seconds, judge
            ),
            lambda stored: {"name": stored.name, "secret": None, "grace_seconds": grace_seconds},
        )

    async def revoke_token(self, key_id: str, actor: Actor, judge: TokenJudge) -> TokenRecord:
        def change(within: Transaction) -> TokenRecord:
            record = access.revoke_token(within.connection, within.now, key_id, judge)
            jobs.release_held(within, record.id)
            return record

        return await self._audited(
            actor, "token.revoke", ("token", key_id), change, lambda stored: {"name": stored.name}
        )

    async def resume_token(self, key_id: str, actor: Actor, judge: TokenJudge) -> TokenRecord:
        return await self._audited(
            *(actor, "token.resume", ("token", key_id)),
            lambda within: access.resume_token(within.connection, key_id, judge),
            lambda stored: {"name": stored.name},
        )

    async def reset_token(self, record: TokenRecord, actor: Actor) -> TokenRecord:
        return await self._audited(
            *(actor, "token.reset", ("token", record.key_id)),
            lambda within: access.reset_token(within.connection, within.now, record),
            _rights,
        )

    async def touch_tokens(self, used: Mapping[str, int]) -> None:
        await self._change(lambda within: access.touch_tokens(within.connection, used))

    async def reserve_calls(self, token_id: str, minute: int, units: int, limit: int) -> int:
        return await self._change(
            lambda within: access.reserve_calls(within.connection, token_id, minute, units, limit)
        )

    async def keep_fingerprint(self, fingerprint: str, previous: str | None) -> None:
        await self._change(lambda within: access.keep_fingerprint(within.connection, fingerprint, previous))

    # --- the audit --------------------------------------------------------------------------------

    async def record_refusals(self, refusals: Sequence[Refusal]) -> None:
        await self._change(lambda within: audit.record_refusals(within, refusals))

    async def seal_audit(self, sealer: Sealer) -> Seal | None:
        return await self._change(lambda within: audit.seal(within, sealer))


def _pausing(paused: bool) -> str:
    return "pause" if paused else "resume"


def _rights(stored: TokenRecord) -> dict[str, object]:
    """What a token that was made may do, and that it has a secret."""
    return {
        "name": stored.name,
        "secret": None,
        **differences(None, stored.grant, apart=frozenset()),
        "rate_limit_per_minute": stored.rate_limit_per_minute,
        "expires_at": stored.expires_at,
    }
