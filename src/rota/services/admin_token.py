"""The admin token of a new deployment: made once, however many nodes start together."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

import structlog

from rota.auth.tokens import Pepper, new_token
from rota.domain.access import PRESETS, Actor, Grant
from rota.errors import NameTaken, RotaError
from rota.host import ADMIN_FILE, create_private, read_private, write_private
from rota.services.tokens import new_id
from rota.store.base import Store, TokenRecord

ADMIN: Final = "admin"
"""The token's name; names are unique for ever, so the insert that takes it decides."""

log = structlog.get_logger("rota.tokens")


async def ensure_admin_token(store: Store, pepper: Pepper, data_folder: Path) -> None:
    """Make the admin token of a deployment that has none, and the file that holds it.

    Each node that starts writes its own candidate to ``.admin.token.<key id>``, synced, and only then
    inserts it. The unique name lets one insert through: that node renames its file to ``admin.token``,
    the others remove theirs. A node that dies between insert and rename leaves a file whose key id is
    the stored one; the next start renames it. So a token that was stored can always be read from the
    folder, and a file under the final name always holds a token that was stored.
    """
    for record in await store.reader.tokens():
        if record.name == ADMIN:
            _settle(data_folder, record.key_id)
            return
    key_id, token = new_token()
    candidate = _candidate(data_folder, key_id)
    create_private(candidate, f"{token}\n".encode())
    try:
        await store.add_token(_admin_record(pepper, key_id, token), Actor("server", "start"))
    except NameTaken:
        candidate.unlink(missing_ok=True)
    else:
        _settle(data_folder, key_id)


def _admin_record(pepper: Pepper, key_id: str, token: str) -> TokenRecord:
    preset = PRESETS["admin"]
    return TokenRecord(
        id=new_id(),
        key_id=key_id,
        name=ADMIN,
        hash=pepper.hash(token),
        pepper_key_id=pepper.key_id,
        grant=Grant(scopes=preset.scopes, max_priority=preset.max_priority),
    )


def _candidate(data_folder: Path, key_id: str) -> Path:
    return data_folder / f".{ADMIN_FILE}.{key_id}"


def _settle(data_folder: Path, key_id: str) -> None:
    """Give the stored token's file its final name where that is still to do; remove other candidates."""
    final = data_folder / ADMIN_FILE
    stored = _candidate(data_folder, key_id)
    with suppress(FileNotFoundError):  # another node that starts was faster
        stored.replace(final)
        log.info("admin_token_written", file=str(final))
    for lost in data_folder.glob(f".{ADMIN_FILE}.*"):
        lost.unlink(missing_ok=True)


async def reset_admin_token(
    store: Store, pepper: Pepper, data_folder: Path, actor: Actor
) -> tuple[str, Path]:
    """Give the admin token a new secret and all rights again, and write it to ``admin.token``.

    Returns the token and the file. The one before ends, revoked or suspended or not. As at the first start
    the file is written and synced, under the new key id, before the database knows of it: no crash leaves a
    token that nobody can read.
    """
    key_id, token = new_token()
    create_private(_candidate(data_folder, key_id), f"{token}\n".encode())
    try:
        await store.reset_token(_admin_record(pepper, key_id, token), actor)
    except RotaError:
        _candidate(data_folder, key_id).unlink(missing_ok=True)
        raise
    _settle(data_folder, key_id)
    file = data_folder / ADMIN_FILE
    if not file.exists() or read_private(file) != f"{token}\n".encode():
        # A server that started just now took the candidate for a lost one.
        write_private(file, f"{token}\n".encode())
    return token, file
