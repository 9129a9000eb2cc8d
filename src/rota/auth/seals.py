"""The chain of seals over the audit: each is an HMAC of the rows since the last one and of that one.

The key derives from the deployment's secret key, which is not in the database. So whoever can write to the
database, but does not hold the key, cannot change, remove or insert a sealed row without breaking the chain.
Cutting off its end, the newest rows together with their seals, leaves a shorter chain that is whole: compare
the last seal with the server's log (``audit_sealed``) to notice that.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from msgspec import json
from msgspec.structs import astuple

from rota.auth.tokens import derive_key, secret_key_id
from rota.domain.audit import AuditRecord, Seal

LABEL: Final = "audit seal"


class ChainReport(NamedTuple):
    """What a look at the whole chain has found."""

    sealed: int
    """Rows that are proved to be as they were."""
    unsealed: int
    """Rows after the last seal."""
    oldest_unsealed_at: int | None
    unknown_key_ids: frozenset[str]
    """Keys under which seals were made that cannot be checked here."""
    broken_after: int | None
    """The last row before the fault; None when there is none."""


class AuditSealer:
    """Seals under the current key, and checks what it or the previous one has sealed."""

    def __init__(self, current: bytes, previous: bytes | None = None) -> None:
        self.key_id = secret_key_id(current)
        self._keys: dict[str, bytes] = {self.key_id: derive_key(current, LABEL)}
        if previous is not None:
            self._keys.setdefault(secret_key_id(previous), derive_key(previous, LABEL))

    def __call__(self, before: bytes | None, records: Sequence[AuditRecord]) -> tuple[str, bytes]:
        """The current key's id and the seal of ``records`` that follow the seal ``before``."""
        return self.key_id, _seal(self._keys[self.key_id], before, records)

    def check(self, seals: Sequence[Seal], records: Iterable[AuditRecord]) -> ChainReport:
        """Follow the chain from the first row on. ``seals`` and ``records`` are all there are, in order."""
        rows = iter(records)
        unknown: set[str] = set()
        before: bytes | None = None
        proved = last_id = 0
        held: AuditRecord | None = next(rows, None)
        for seal in seals:
            covered: list[AuditRecord] = []
            while held is not None and held.id <= seal.last_id:
                covered.append(held)
                held = next(rows, None)
            key = self._keys.get(seal.key_id)
            if len(covered) != seal.records or (
                key is not None and not hmac.compare_digest(_seal(key, before, covered), seal.seal)
            ):
                return ChainReport(proved, 0, None, frozenset(unknown), last_id)
            if key is None:
                unknown.add(seal.key_id)
            else:
                proved += len(covered)
            before, last_id = seal.seal, seal.last_id
        oldest = None if held is None else held.at
        unsealed = 0 if held is None else 1 + sum(1 for _ in rows)
        return ChainReport(proved, unsealed, oldest, frozenset(unknown), None)


def _seal(key: bytes, before: bytes | None, records: Sequence[AuditRecord]) -> bytes:
    made = hmac.new(key, b"first" if before is None else before, "sha256")
    for each in records:
        encoded = json.encode(astuple(each), order="sorted")
        made.update(len(encoded).to_bytes(4, "big") + encoded)
    return made.digest()
