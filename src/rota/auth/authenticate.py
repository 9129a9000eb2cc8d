"""From an ``Authorization`` header to a principal.

Token records are cached by key id. The common case, a valid token whose record was read within the last
second, is decided at once by :meth:`Authenticator.known`; everything else goes through
:meth:`Authenticator.look_up`, which may read.

How stale access can be: a record serves for a second at most, counted from before it was read, and
never over a change that this process made (``types_version`` and :meth:`Authenticator.learn`). A record
that cannot be read again gives Unavailable, not access.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Final

import msgspec
import structlog
from msgspec.structs import replace

from rota.auth.failures import Failures
from rota.auth.tokens import Pepper, key_id_of
from rota.clock import Clock
from rota.domain.access import Principal
from rota.errors import RotaError, Unauthenticated, Unavailable
from rota.store.base import Judge, Store, TokenRecord

FRESH_MS: Final = 1_000
READ_SECONDS: Final = 5.0
"""How long a request waits for its token's record to be read."""
LONGEST_WAIT_MS: Final = 61_000
"""For so long after a claim began to wait its token's record is kept fresh."""
FEW: Final = 16
"""Up to so many records are read one by one; beyond, all at once."""

_SCHEME: Final = b"Bearer "
_TOKEN_LENGTH: Final = len("rota_") + 12 + 1 + 43
_KEY_ID: Final = slice(len(_SCHEME) + len("rota_"), len(_SCHEME) + len("rota_") + 12)

log = structlog.get_logger("rota.auth")


class _Entry(msgspec.Struct, gc=False):
    """A token's record as it was read."""

    record: TokenRecord
    principal: Principal
    previous: Principal | None
    """Who shows the secret before the last rotation."""
    read_at: int
    version: int
    proof: bytes = b""
    """Of the token that matched this record's hash; spares the next requests the HMAC."""


class RecordOverdue(Unavailable):
    """A waiting claim's token is about to be read again. The claim ends as if its time were over."""


class Authenticator:
    """Knows the tokens; belongs to one event loop, save for the judges that :meth:`judge` gives."""

    def __init__(self, store: Store, pepper: Pepper, clock: Clock) -> None:
        self._store = store
        self._reader = store.reader
        self._pepper = pepper
        self._clock = clock
        self._failures = Failures(clock)
        self._entries: dict[bytes, _Entry] = {}
        self._reading: dict[bytes | None, asyncio.Task[bool]] = {}
        self._learnt = 0
        self._all_read_at: int | None = None
        self._all_read = False
        self._used: dict[str, int] = {}
        self._read_failed = False
        self._waiting: dict[bytes, int] = {}

    def known(self, authorization: bytes | None) -> Principal | None:
        """The principal of a valid token that needs no reading; None means: ask :meth:`look_up`."""
        if authorization is None or len(authorization) != len(_SCHEME) + _TOKEN_LENGTH:
            return None
        entry = self._entries.get(authorization[_KEY_ID])
        if entry is None or authorization[: len(_SCHEME)] != _SCHEME:
            return None
        now = self._clock.now()
        if now - entry.read_at > FRESH_MS or entry.version != self._reader.types_version():
            return None
        return self._judged(entry, authorization[len(_SCHEME) :].decode("latin-1"), now)

    async def look_up(self, authorization: bytes | None, address: str) -> Principal:
        """The principal of a valid token, whatever has to be read for it. ``address`` is the caller's.

        Raises Unauthenticated for a missing, malformed, unknown, revoked or expired token, RateLimited
        instead once its address has failed 300 times in a minute, and Unavailable when the token's
        record cannot be read.
        """
        token = _bearer(authorization)
        key_id = None if token is None else key_id_of(token)
        if token is None or key_id is None:
            self._failures.count(address)
            raise _refusal(shown=authorization is not None, empty=token == "")
        entry = await self._entry(key_id.encode())
        if entry is None:
            self._pepper.dummy_compare(token)
        else:
            principal = self._judged(entry, token, self._clock.now())
            if principal is not None:
                return principal
        self._failures.count(address)
        raise _refusal(shown=True)

    def judge(self, principal: Principal) -> Judge:
        """Whether what ``principal`` showed is still good, to be asked again and again while a claim waits.

        The judge may be called from any thread. Where the record is older than a second and something has
        changed in the database since, it answers Unavailable if the last reading failed, else RecordOverdue.
        """
        key = principal.key_id.encode()
        self._waiting[key] = self._clock.now() + LONGEST_WAIT_MS

        def still_good() -> RotaError | None:
            entry = self._entries.get(key)
            now = self._clock.now()
            if entry is None or not _holds(entry, principal, now):
                return _refusal(shown=True)
            if now - entry.read_at > FRESH_MS and entry.version != self._reader.types_version():
                return _unavailable() if self._read_failed else RecordOverdue()
            return None

        return still_good

    def learn(self, record: TokenRecord) -> None:
        """Take over a record that this process has just written, before anything else happens."""
        self._learnt += 1
        entry = _entry(record, self._clock.now(), self._reader.types_version())
        self._entries[record.key_id.encode()] = entry

    async def run_once(self) -> None:
        """Keep the records of waiting claims fresh; twice a second."""
        now = self._clock.now()
        self._waiting = {key: until for key, until in self._waiting.items() if until > now}
        if len(self._waiting) > FEW:
            await self._once(None, self._read_all)
            return
        for key in list(self._waiting):
            await self._once(key, partial(self._read, key))

    async def record_uses(self) -> None:
        """Record last uses; once a minute. It may wait for the database as long as any write."""
        used, self._used = self._used, {}
        if not used:
            return
        try:
            await self._store.touch_tokens(used)
        except BaseException:
            self._used = used | self._used
            raise

    def _judged(self, entry: _Entry, token: str, now: int) -> Principal | None:
        """Who shows ``token``; None when it is wrong or no longer good."""
        record = entry.record
        principal: Principal | None = None
        proof = self._pepper.proof(token)
        if hmac.compare_digest(proof, entry.proof):
            principal = entry.principal
        elif self._pepper.matches(token, record.hash, record.pepper_key_id):
            principal = entry.principal
            entry.proof = proof
        elif entry.previous is not None:
            assert record.previous_hash is not None
            assert record.previous_pepper_key_id is not None
            if self._pepper.matches(token, record.previous_hash, record.previous_pepper_key_id):
                principal = entry.previous
        if principal is None or not _holds(entry, principal, now):
            return None
        self._used[record.id] = now
        return principal

    # --- reading ----------------------------------------------------------------------------------

    async def _entry(self, key: bytes) -> _Entry | None:
        """The token's entry, read again where it is stale; None when there is no such token."""
        entry = self._entries.get(key)
        if entry is not None:
            if not self._is_fresh(entry):
                await self._required(key, partial(self._read, key))
            return self._entries.get(key)
        # All at once, so that no number of unknown ids keeps a new token from being found.
        now = self._clock.now()
        if None in self._reading or self._all_read_at is None or now - self._all_read_at >= FRESH_MS:
            await self._required(None, self._read_all)
        elif not self._all_read:
            raise _unavailable()
        return self._entries.get(key)

    def _is_fresh(self, entry: _Entry) -> bool:
        return self._clock.now() - entry.read_at <= FRESH_MS and entry.version == self._reader.types_version()

    async def _required(self, key: bytes | None, read: Callable[[], Coroutine[None, None, bool]]) -> None:
        if not await self._once(key, read):
            raise _unavailable()

    async def _once(self, key: bytes | None, read: Callable[[], Coroutine[None, None, bool]]) -> bool:
        """Join the reading of ``key`` (None: of all) that is under way, or begin one."""
        reading = self._reading.get(key)
        if reading is None:
            reading = self._reading[key] = asyncio.create_task(read())
            reading.add_done_callback(lambda _: self._reading.pop(key, None))
        return await asyncio.shield(reading)

    async def _read(self, key: bytes) -> bool:
        """Read one record again; False when that failed."""
        while True:
            learnt, now, version = self._learnt, self._clock.now(), self._reader.types_version()
            try:
                async with asyncio.timeout(READ_SECONDS):
                    record = await self._reader.token(key.decode())
            except Exception as error:
                log.warning("token_not_read", error=type(error).__name__)
                self._read_failed = True
                return False
            if learnt == self._learnt:
                break
        self._read_failed = False
        if record is None:
            self._entries.pop(key, None)
        else:
            self._entries[key] = _entry(record, now, version)
        return True

    async def _read_all(self) -> bool:
        """Read every record; False when that failed."""
        self._all_read = False
        while True:
            learnt, now, version = self._learnt, self._clock.now(), self._reader.types_version()
            self._all_read_at = now
            try:
                async with asyncio.timeout(READ_SECONDS):
                    records = await self._reader.tokens()
            except Exception as error:
                log.warning("tokens_not_read", error=type(error).__name__)
                self._read_failed = True
                return False
            if learnt == self._learnt:
                break
        self._read_failed = False
        self._entries = {record.key_id.encode(): _entry(record, now, version) for record in records}
        self._all_read = True
        return True


def _entry(record: TokenRecord, read_at: int, version: int) -> _Entry:
    previous = None
    if record.previous_hash is not None:
        ends = [end for end in (record.previous_until, record.expires_at) if end is not None]
        previous = _principal(record, record.previous_hash, min(ends, default=None))
    return _Entry(record, _principal(record, record.hash, record.expires_at), previous, read_at, version)


def _principal(record: TokenRecord, credential: bytes, expires_at: int | None) -> Principal:
    return Principal(
        id=record.id,
        name=record.name,
        grant=record.grant,
        key_id=record.key_id,
        rate_limit_per_minute=record.rate_limit_per_minute,
        credential=credential,
        expires_at=expires_at,
    )


def _holds(entry: _Entry, principal: Principal, now: int) -> bool:
    """Whether the token is as good and as wide as when ``principal`` was made from it."""
    record = entry.record
    if record.suspended_at is not None:
        return False
    if record.revoked_at is not None or (record.expires_at is not None and now >= record.expires_at):
        return False
    if principal is entry.principal or principal == entry.principal:
        return True
    if entry.previous is None or principal.credential != entry.previous.credential:
        return False
    # A rotation since then has given what was shown an earlier end.
    same = replace(principal, expires_at=entry.previous.expires_at) == entry.previous
    return same and record.previous_until is not None and now < record.previous_until


def _unavailable() -> Unavailable:
    return Unavailable("the token cannot be checked now: try again", retry_after=1)


def _bearer(authorization: bytes | None) -> str | None:
    if authorization is None:
        return None
    scheme, _, token = authorization.partition(b" ")
    return token.strip(b" ").decode("latin-1") if scheme.lower() == b"bearer" else None


def _refusal(*, shown: bool, empty: bool = False) -> Unauthenticated:
    if not shown:
        return Unauthenticated(
            "send a token in the header Authorization: Bearer rota_…",
            headers={"WWW-Authenticate": 'Bearer realm="rota"'},
        )
    wrong = "empty" if empty else "wrong, revoked or expired"
    return Unauthenticated(
        f"the token is {wrong}: send a valid one as Authorization: Bearer rota_…",
        headers={"WWW-Authenticate": 'Bearer realm="rota", error="invalid_token"'},
    )
