"""Workers known to the server: who announces itself, what it runs, and whom to let drain."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from hashlib import sha256
from typing import Final

import msgspec
from msgspec import Raw

from rota.clock import Clock
from rota.domain.access import Actor, Principal, Range, Visibility
from rota.errors import FieldError, Forbidden, NotFound, ValidationFailed
from rota.services.fields import require_label, require_name, within
from rota.services.payloads import check_json
from rota.services.types import Types
from rota.store.base import Store
from rota.store.records import Announcement, CataloguedHandler, Handler, WorkerRecord
from rota.wire import instant
from rota.wire_admin import AnnouncedHandler, AnnounceRequest, HandlerAnswer, WorkerAnswer

MAX_HANDLERS: Final = 200
MAX_DESCRIPTION: Final = 200
MAX_SCHEMA_BYTES: Final = 8_192
MAX_SCHEMAS_BYTES: Final = 131_072
"""All schemas of one worker."""
MAX_HOST: Final = 255
MAX_RUN: Final = 400
MAX_PID: Final = 2**31
MAX_CONCURRENCY: Final = 100_000
LIFE_MS: Final = 86_400_000
"""Who has not been seen for so long is forgotten."""

_UNKNOWN: Final = "there is no worker with this id that the token may see; GET /workers lists them"


class Workers:
    """The verbs about workers and their handlers."""

    def __init__(self, store: Store, types: Types, clock: Clock) -> None:
        self._store = store
        self._reader = store.reader
        self._types = types
        self._clock = clock

    async def announce(self, principal: Principal, instance: str, asked: AnnounceRequest) -> bool:
        """Keep what a worker says about itself; returns whether it is asked to drain.

        Raises ValidationFailed; Forbidden for types out of the token's range; Conflict for a name that is
        another token's, and beyond 1,000 workers.
        """
        require_label(instance, "instance")
        host, version = _line(asked.host, "host", MAX_HOST), _line(asked.version, "version", 64)
        within(asked.pid, 0, MAX_PID, "pid")
        within(asked.concurrency, 1, MAX_CONCURRENCY, "concurrency")
        handlers = _handlers(asked.handlers)
        self._require_in_range(principal, handlers)
        run = f"{host}/{asked.pid}" if asked.run is None else asked.run.hex
        return await self._store.announce_worker(
            Announcement(
                instance=instance,
                owner=principal.id,
                worker_id=f"{principal.name}/{instance}",
                host=host,
                pid=asked.pid,
                version=version,
                concurrency=asked.concurrency,
                run=run,
                handlers=handlers,
                digest=sha256(msgspec.json.encode(handlers)).digest(),
            )
        )

    async def page(
        self, principal: Principal, *, limit: int, before: int | None = None
    ) -> list[tuple[int, WorkerAnswer]]:
        """Workers within the principal's range with ids below ``before``, newest first."""
        names = await self._names(principal)
        visibility = Visibility.of(principal)
        found = await self._reader.workers(names, limit=limit, before=before)
        held = await self._reader.count_held(visibility) if found else {}
        return [(each.id, _answer(each, names, held.get(each.worker_id, 0))) for each in found]

    async def handlers(self, principal: Principal, *, limit: int, skipped: int) -> list[HandlerAnswer]:
        """The catalogue of handlers within the principal's range, by name."""
        names = await self._names(principal)
        found = await self._reader.handlers(names, limit=limit, skipped=skipped)
        return [_described(each) for each in found]

    async def drain(self, principal: Principal, id: int, actor: Actor) -> WorkerAnswer:
        """Ask a worker to end what it does and stop; it learns of it when it announces itself again.

        Raises NotFound, also out of range; Forbidden when it runs types beyond the range too.
        """
        names = await self._names(principal)

        def judge(stored: WorkerRecord) -> None:
            if names is None:
                return
            if names.isdisjoint(stored.handlers):
                raise NotFound(_UNKNOWN)
            if not names.issuperset(stored.handlers):
                raise Forbidden("the worker runs jobs of types beyond the token's range too")

        stored = await self._store.drain_worker(id, actor, judge)
        held = await self._reader.count_held(Visibility.of(principal))
        return _answer(stored, names, held.get(stored.worker_id, 0))

    async def run_once(self) -> int:
        """Forget workers that have not been seen for a day; returns how many."""
        return await self._store.forget_workers(self._clock.now() - LIFE_MS)

    async def _names(self, principal: Principal) -> Range:
        """The names of types within the range; None means all."""
        grant = principal.grant
        if grant.queues is None:
            return grant.types
        await self._types.refresh()
        return frozenset(each.name for each in self._types.known() if grant.admits(each.queue, each.name))

    def _require_in_range(self, principal: Principal, handlers: Sequence[Handler]) -> None:
        allowed = principal.grant.types
        for index, each in enumerate(handlers):
            if allowed is not None and each.name not in allowed:
                field, message = f"handlers[{index}].name", "the token's range does not hold this type"
                raise Forbidden(message, errors=[FieldError(field, "out-of-range", message)])


def _handlers(asked: Sequence[AnnouncedHandler]) -> tuple[Handler, ...]:
    if len(asked) > MAX_HANDLERS:
        raise ValidationFailed.of("handlers", "too-many", f"holds more than {MAX_HANDLERS} handlers")
    handlers: dict[str, Handler] = {}
    size = 0
    for index, each in enumerate(asked):
        where = f"handlers[{index}]"
        require_name(each.name, f"{where}.name")
        if each.name in handlers:
            raise ValidationFailed.of(f"{where}.name", "twice", "stands in the list already")
        schema = _schema(each, f"{where}.schema")
        size += len(schema or "")
        if size > MAX_SCHEMAS_BYTES:
            message = f"all schemas together take more than {MAX_SCHEMAS_BYTES:,} bytes"
            raise ValidationFailed.of(f"{where}.schema", "too-long", message)
        described = _line(each.description, f"{where}.description", MAX_DESCRIPTION)
        handlers[each.name] = Handler(each.name, described, schema)
    return tuple(handlers[name] for name in sorted(handlers))


def _schema(asked: AnnouncedHandler, field: str) -> str | None:
    text = b"null" if asked.schema is msgspec.UNSET else bytes(asked.schema)
    if text == b"null":
        return None
    check_json(text, MAX_SCHEMA_BYTES, field)
    if not text.startswith(b"{"):
        raise ValidationFailed.of(field, "not-a-schema", "must be a JSON object")
    return text.decode()


def _line(text: str, field: str, most: int) -> str:
    if len(text) > most:
        raise ValidationFailed.of(field, "too-long", f"is longer than {most} characters")
    if any(unicodedata.category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp"} for char in text):
        raise ValidationFailed.of(
            field, "not-printable", "must be one line without control or text-direction characters"
        )
    return text


def _answer(stored: WorkerRecord, names: Range, held: int) -> WorkerAnswer:
    token_name, _, _ = stored.worker_id.partition("/")
    return WorkerAnswer(
        id=stored.id,
        instance=stored.instance,
        worker_id=stored.worker_id,
        announced_by=token_name,
        host=stored.host,
        pid=stored.pid,
        version=stored.version,
        concurrency=stored.concurrency,
        handlers=[name for name in stored.handlers if names is None or name in names],
        held=held,
        drain_requested=stored.drain_requested,
        first_seen_at=instant(stored.first_seen_at),
        last_seen_at=instant(stored.last_seen_at),
    )


def _described(stored: CataloguedHandler) -> HandlerAnswer:
    return HandlerAnswer(
        name=stored.name,
        description=stored.description,
        schema=None if stored.schema is None else Raw(stored.schema.encode()),
        announced_by=list(stored.announced_by),
        workers=stored.workers,
        last_seen_at=instant(stored.last_seen_at),
    )
