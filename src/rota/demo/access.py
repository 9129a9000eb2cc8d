"""What the demo declares and grants before the first job: types, and tokens with the least rights."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Self

import msgspec

from rota.client.aio import AsyncClient
from rota.demo import tasks
from rota.domain.retry import Backoff
from rota.host import ADMIN_FILE, read_private

LEASE_SECONDS: Final = 3.0
"""Short, so that the jobs of a killed worker come back while the audience watches."""
BACKOFF: Final = Backoff("fixed", base_seconds=0.5)


def read_admin_token(data: Path) -> str:
    """The token that the server wrote into its data folder at its first start."""
    return read_private(data / ADMIN_FILE).decode("ascii").strip()


class Access(msgspec.Struct, frozen=True):
    """The names of the types, and the tokens of those who take part."""

    types: tuple[str, ...]
    producer: str
    worker: str
    observer: str

    @classmethod
    async def grant(cls, admin: AsyncClient, *, missing_retries: int) -> Self:
        """Declare the types and make the tokens, on a server that has neither."""
        retries = {
            tasks.measure_file: 3,
            tasks.stumble_then_measure: 3,
            tasks.measure_missing: missing_retries,
        }
        for one, max_retries in retries.items():
            await admin.types.put(
                one.name,
                description=one.__doc__ or "",
                max_retries=max_retries,
                lease_seconds=LEASE_SECONDS,
                backoff=BACKOFF,
            )
        names = [one.name for one in retries]
        producer = await admin.tokens.create("demo-producer", preset="producer", types=names)
        worker = await admin.tokens.create("demo-worker", preset="worker", types=names)
        observer = await admin.tokens.create(
            "demo-observer", scopes=["jobs:read", "detail:read"], types=names
        )
        return cls(tuple(names), producer.token, worker.token, observer.token)
