"""Guards of the process and of its data folder: owner, modes, locks, secret key, server address.

Everything Rota writes beside its database is private to one user, complete or absent, and never
reached through a symbolic link. Errors are ``StartError``: they go to the operator's terminal, so
they name the path and the command that helps.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import pwd
import secrets
import shlex
import stat
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Self

import msgspec

from rota.auth.tokens import parse_secret_key
from rota.errors import StartError

MAX_PRIVATE_BYTES = 64 * 1024
KEY_FILE = "secret.key"
LOCK_FILE = "rota.lock"
SERVER_FILE = "server.json"
ADMIN_FILE = "admin.token"
LOCK_POLL_SECONDS = 0.02


def set_umask() -> None:
    """Let nothing this process creates be readable by others."""
    os.umask(0o077)


def warn_if_root() -> str | None:
    """The warning to print when the process runs as root, else None."""
    if os.geteuid() != 0:
        return None
    return (
        "Rota runs as root. Give it a user of its own: a fault in it would then be a fault of that user only."
    )


def account() -> str:
    """The name of the user that this process runs as."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


# The data folder


def open_data_folder(path: Path) -> Path:
    """The folder as an absolute path, made with mode 0700 if it is missing.

    Raises ``StartError`` when it is a symbolic link, no folder, another user's, or open to others.
    """
    path = path.absolute()
    with _explained(path):
        for missing in reversed([path, *path.parents]):
            with contextlib.suppress(FileExistsError):
                missing.mkdir(mode=0o700)
                sync_folder(missing.parent)
        found = path.lstat()
    shown = shlex.quote(str(path))
    if stat.S_ISLNK(found.st_mode):
        raise StartError(f"The data folder {shown} is a symbolic link. Name the folder that it points to.")
    if not stat.S_ISDIR(found.st_mode):
        raise StartError(f"{shown} is not a folder. Name another data folder.")
    if found.st_uid != os.geteuid():
        raise StartError(f"The data folder {shown} belongs to another user. Run Rota as its owner.")
    if found.st_mode & 0o077:
        raise StartError(f"The data folder {shown} is open to other users. Run: chmod 700 {shown}")
    return path


# Private files


def create_private(path: Path, data: bytes) -> None:
    """Make a file of mode 0600 that holds ``data``, synced, or raise ``FileExistsError``.

    It appears under its name only when complete, and never takes the place of another: of several
    processes that create it at once, one succeeds and the others can read it whole.
    """
    with _new_file_beside(path, data) as made:
        os.link(made, path)


def write_private(path: Path, data: bytes) -> None:
    """Make or replace a file of mode 0600, synced; a reader sees the old content or the new."""
    with _new_file_beside(path, data) as made:
        made.replace(path)


def read_private(path: Path) -> bytes:
    """The content of a file that only this user can read, 64 KiB at most.

    Raises ``FileNotFoundError`` when there is none, and ``StartError`` when it is a symbolic link,
    not a regular file, another user's, wider than 0600 or too large.
    """
    shown = shlex.quote(str(path))
    with _explained(path):
        content, found = _read(path, os.O_NOFOLLOW)
    if found.st_uid != os.geteuid():
        raise StartError(f"{shown} belongs to another user. Run Rota as its owner, or remove the file.")
    if stat.S_IMODE(found.st_mode) & ~0o600:
        raise StartError(f"{shown} is open to other users. Run: chmod 600 {shown}")
    return content


@contextlib.contextmanager
def _new_file_beside(path: Path, data: bytes) -> Iterator[Path]:
    """A complete, synced file in the folder of ``path``; the block gives it its name."""
    made = path.with_name(f".{path.name}.{secrets.token_hex(8)}.new")
    try:
        descriptor = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        yield made
    finally:
        made.unlink(missing_ok=True)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Have the names in a folder on the disk, as ``fsync`` has a file's content there."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _read(path: Path, flags: int) -> tuple[bytes, os.stat_result]:
    # O_NONBLOCK: a FIFO in the file's place must not hold the process.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | flags)
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise StartError(f"{shlex.quote(str(path))} is not a regular file. Remove it.")
        content = file.read(MAX_PRIVATE_BYTES + 1)
    if len(content) > MAX_PRIVATE_BYTES:
        raise StartError(f"{shlex.quote(str(path))} is larger than {MAX_PRIVATE_BYTES} bytes. Remove it.")
    return content, found


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn what the system refuses into a ``StartError``; absence stays ``FileNotFoundError``."""
    shown = shlex.quote(str(path))
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as refused:
        if refused.errno == errno.ELOOP:
            raise StartError(f"{shown} is a symbolic link. Remove it.") from None
        raise StartError(f"{shown} cannot be used: {refused.strerror}.") from None


# The lock


class DataLock:
    """Who has the database open: many processes together, or one alone.

    A lock on ``rota.lock`` in ``folder``, the folder of the database. The system drops it when the
    process ends, however it ends.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / LOCK_FILE
        self._descriptor: int | None = None

    def acquire_shared(self, wait_seconds: float = 1.0) -> None:
        """Open the data beside others, also down from holding it alone.

        Raises ``StartError`` when a process still holds it alone after ``wait_seconds``.
        """
        if not self._lock(fcntl.LOCK_SH, wait_seconds):
            raise StartError(
                f"The data is being migrated or restored by {self._holders()}. Wait for its end."
            )

    def acquire_exclusive(self, wait_seconds: float = 1.0) -> None:
        """Open the data alone; ``StartError`` when others still have it after ``wait_seconds``."""
        if not self._lock(fcntl.LOCK_EX, wait_seconds):
            raise StartError(f"The data is in use and is needed alone. First stop {self._holders()}.")

    def release(self) -> None:
        """Let others have it; nothing happens when it is not held."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def is_held(self) -> bool:
        """Whether any process, this one included, has the data open now."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def _lock(self, kind: int, wait_seconds: float) -> bool:
        # Without a wait, the short exclusive look of is_held could turn a starting server away.
        if self._descriptor is None:
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            with _explained(self.path):
                self._descriptor = os.open(self.path, flags, 0o600)
        until = time.monotonic() + wait_seconds
        while True:
            try:
                fcntl.flock(self._descriptor, kind | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= until:
                    break
                time.sleep(LOCK_POLL_SECONDS)
            else:
                return True
        self.release()
        return False

    def _holders(self) -> str:
        found = self.path.stat()
        pids = sorted(pid for pid in _flock_pids(found.st_ino) if _has_open(pid, found))
        if not pids:
            return f"every Rota process that uses {shlex.quote(str(self.path.parent))}"
        return ("process " if len(pids) == 1 else "processes ") + ", ".join(map(str, pids))


def _flock_pids(inode: int) -> set[int]:
    """Processes that hold a lock on a file of that inode number, where the system tells (Linux)."""
    pids = set()
    with contextlib.suppress(OSError):
        for line in Path("/proc/locks").read_text(encoding="ascii").splitlines():
            words = line.split()
            if words[1] == "FLOCK" and words[5].rpartition(":")[2] == str(inode):
                pids.add(int(words[4]))
    return pids


def _has_open(pid: int, found: os.stat_result) -> bool:
    with contextlib.suppress(OSError):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                if os.path.samestat(descriptor.stat(), found):
                    return True
    return False


# The server's address


class ServerAddress(msgspec.Struct, frozen=True):
    """Where the running server answers. ``started`` is in milliseconds since the epoch."""

    url: str
    pid: int
    started: int


class ServerFile:
    """``server.json`` in the data folder: how commands on the same machine find the server."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / SERVER_FILE

    def write(self, address: ServerAddress) -> None:
        """Say where this server answers; of two servers on one folder the later one is found."""
        write_private(self.path, msgspec.json.encode(address))

    def read(self) -> ServerAddress | None:
        """The address last written, of a server that may have died since; None when there is none."""
        try:
            return msgspec.json.decode(read_private(self.path), type=ServerAddress)
        except FileNotFoundError:
            return None
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise StartError(f"{shlex.quote(str(self.path))} cannot be read. Remove it.") from None

    def remove(self) -> None:
        """Take back this process's own address; another server's stays."""
        address = self.read()
        if address is not None and address.pid == os.getpid():
            self.path.unlink(missing_ok=True)


# The secret key


def existing_secret_key(folder: Path, environ: Mapping[str, str]) -> tuple[bytes, bytes | None] | None:
    """As :func:`load_secret_key`, but None where that would make a key."""
    given = "ROTA_SECRET_KEY" in environ or "ROTA_SECRET_KEY_FILE" in environ
    if not given and not (folder / KEY_FILE).exists():
        return None
    return load_secret_key(folder, environ)


def load_secret_key(folder: Path, environ: Mapping[str, str]) -> tuple[bytes, bytes | None]:
    """The current key and the previous one, which only verifies.

    From ``ROTA_SECRET_KEY`` or the file that ``ROTA_SECRET_KEY_FILE`` names, else from
    ``secret.key`` in ``folder``, which is made when it is missing. Raises ``StartError``.
    """
    previous = environ.get("ROTA_SECRET_KEY_PREVIOUS")
    return _current_key(folder, environ), (
        None if previous is None else parse_secret_key(previous, "ROTA_SECRET_KEY_PREVIOUS")
    )


def _current_key(folder: Path, environ: Mapping[str, str]) -> bytes:
    given, named = environ.get("ROTA_SECRET_KEY"), environ.get("ROTA_SECRET_KEY_FILE")
    if given is not None and named is not None:
        raise StartError("ROTA_SECRET_KEY and ROTA_SECRET_KEY_FILE are both set. Set one of them.")
    if given is not None:
        return parse_secret_key(given)
    if named is not None:
        return parse_secret_key(_text(_read_mounted(Path(named))), "ROTA_SECRET_KEY_FILE")
    path = folder / KEY_FILE
    with contextlib.suppress(FileNotFoundError):
        return parse_secret_key(_text(read_private(path)), KEY_FILE)
    with contextlib.suppress(FileExistsError):
        create_private(path, secrets.token_hex(32).encode("ascii") + b"\n")
    return parse_secret_key(_text(read_private(path)), KEY_FILE)


def _read_mounted(path: Path) -> bytes:
    """A secret that an orchestrator mounted: it may be a link, root's, and readable by our group."""
    shown = shlex.quote(str(path))
    try:
        with _explained(path):
            content, found = _read(path, 0)
    except FileNotFoundError:
        raise StartError(f"ROTA_SECRET_KEY_FILE names {shown}, which does not exist.") from None
    if found.st_uid not in (0, os.geteuid()):
        raise StartError(f"{shown} belongs to another user. It must be root's or Rota's own.")
    if stat.S_IMODE(found.st_mode) & 0o027:
        raise StartError(f"{shown} is open to other users. Give it mode 0400 or 0440.")
    return content


def _text(content: bytes) -> str:
    return content.decode("utf-8", "surrogateescape")
