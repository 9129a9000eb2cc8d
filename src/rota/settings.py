"""Frozen settings: ``rota.toml``, then ``ROTA_*`` variables, then flags; the later one wins.

A name that is not known is refused rather than ignored, wherever it stands: a misspelt guard
would otherwise be no guard. Nothing here opens the data folder or keeps a secret.
"""

from __future__ import annotations

import difflib
import ipaddress
import os
import re
import shlex
import stat
import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_type_hints
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from rota.errors import StartError

FILE_NAME = "rota.toml"
DEFAULT_DATA = Path("rota-data")
PREFIX = "ROTA_"
OTHER_VARIABLES = (
    "ROTA_URL",
    "ROTA_TOKEN",
    "ROTA_SECRET_KEY",
    "ROTA_SECRET_KEY_FILE",
    "ROTA_SECRET_KEY_PREVIOUS",
    "ROTA_EXECUTOR_TOKEN",
    "ROTA_EXECUTOR_TOKEN_FILE",
)
"""Variables that are no settings; they are read where they are needed."""
FREE_PREFIXES = ("ROTA_EXECUTOR_TOKEN_", "ROTA_TEST_")

_SQLITE = "sqlite:///"
_HOST = re.compile(r"[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\]")


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What a server process is told at start; every field is also a key, a variable and a flag."""

    data: Annotated[Path, Meta(description="The folder of the database, the keys and rota.toml.")]
    database: Annotated[
        str | None,
        Meta(
            description="sqlite:///FILE to share an application's database; else rota.db in the data folder."
        ),
    ] = None
    host: Annotated[str, Meta(min_length=1, description="The address to listen on.")] = "127.0.0.1"
    port: Annotated[
        int, Meta(ge=0, le=65535, description="The port to listen on; 0 takes any that is free.")
    ] = 8520
    tls_cert: Annotated[
        Path | None, Meta(description="A PEM file with the certificate chain; needs tls_key.")
    ] = None
    tls_key: Annotated[
        Path | None, Meta(description="A PEM file with the certificate's private key; needs tls_cert.")
    ] = None
    insecure_http: Annotated[
        bool, Meta(description="Listen beyond this machine although tokens can be read on the way.")
    ] = False
    trusted_proxies: Annotated[
        tuple[str, ...],
        Meta(description="Addresses or networks of the proxies whose X-Forwarded-* headers are believed."),
    ] = ()
    allowed_hosts: Annotated[
        tuple[str, ...],
        Meta(description="Host names to answer to; else the host, localhost and that of public_url."),
    ] = ()
    public_url: Annotated[
        str | None, Meta(description="Where others reach this server, such as https://jobs.example.org.")
    ] = None
    app_name: Annotated[
        str,
        Meta(
            pattern=r"\A[a-z0-9][a-z0-9._-]{0,63}\Z",
            description="The producer's name of jobs that are enqueued in-process: local:<app_name>.",
        ),
    ] = "app"
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], Meta(description="The least level that is logged.")
    ] = "info"
    log_json: Annotated[bool, Meta(description="Log one JSON object a line instead of text.")] = False
    max_pending: Annotated[
        int, Meta(ge=1, description="How many pending jobs one token may have before it is turned away.")
    ] = 1_000_000
    retention_completed_days: Annotated[
        int,
        Meta(
            ge=0, le=3650, description="Days after which completed jobs are deleted; 0 keeps them for ever."
        ),
    ] = 7
    retention_failed_days: Annotated[
        int,
        Meta(ge=0, le=3650, description="Days after which failed jobs are deleted; 0 keeps them for ever."),
    ] = 90
    retention_cancelled_days: Annotated[
        int,
        Meta(
            ge=0, le=3650, description="Days after which cancelled jobs are deleted; 0 keeps them for ever."
        ),
    ] = 7
    min_free_disk_mb: Annotated[
        int, Meta(ge=0, description="Free space in MiB below which new jobs are turned away.")
    ] = 512
    sweep_interval_ms: Annotated[
        int,
        Meta(ge=10, le=500, description="Milliseconds between two looks for lapsed leases and due jobs."),
    ] = 250

    @property
    def database_file(self) -> Path:
        """The SQLite file, absolute; the lock lies in its folder."""
        if self.database is None:
            return self.data.absolute() / "rota.db"
        return Path(self.database.removeprefix(_SQLITE)).absolute()


_TYPES: Mapping[str, Any] = get_type_hints(Settings, include_extras=True)
SETTINGS_HELP: Mapping[str, str] = {
    name: next(meta.description for meta in get_args(kind) if isinstance(meta, Meta) and meta.description)
    for name, kind in _TYPES.items()
}
"""One line about each setting."""


def load(
    data: Path | None,
    config: Path | None,
    environ: Mapping[str, str],
    flags: Mapping[str, object],
) -> Settings:
    """The settings of this start.

    ``data`` and ``config`` are the flags of these names; a flag of value None was not given, and an
    empty variable is not set. Raises ``StartError`` that names the key and its place.
    """
    told = _from_variables(environ) | _from_flags({**flags, "data": data})
    if config is not None:
        file = _from_file(config)
        if file is None:
            raise StartError(f"The configuration file {shlex.quote(str(config))} does not exist.")
    else:
        path = told.get("data", DEFAULT_DATA) / FILE_NAME
        file = _from_file(path) or {}
        if "data" in file:
            raise StartError(
                f"data in {shlex.quote(str(path))} names the folder it lies in. Remove it there."
            )
    settings = Settings(**({"data": DEFAULT_DATA} | file | told))
    _judge(settings)
    return settings


def check_bind(settings: Settings) -> None:
    """Refuse to listen where tokens would cross a network in the clear.

    Loopback needs nothing. Elsewhere TLS files or trusted proxies are needed, else
    ``insecure_http``. Raises ``StartError``.
    """
    for name, path in (("tls_cert", settings.tls_cert), ("tls_key", settings.tls_key)):
        if path is not None and not path.is_file():
            raise StartError(f"{name} names {shlex.quote(str(path))}, which is not a file.")
    if is_loopback(settings.host) or settings.tls_cert or settings.trusted_proxies or settings.insecure_http:
        return
    raise StartError(
        f"Listening on {settings.host} would send tokens over the network in the clear. Give --tls-cert and "
        "--tls-key, or name the proxies in trusted_proxies, or accept the risk with --insecure-http."
    )


def is_loopback(host: str) -> bool:
    """Whether the host is this machine itself by its text; no name but localhost is looked up."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


# The three places


def _from_file(path: Path) -> dict[str, Any] | None:
    shown = shlex.quote(str(path))
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise StartError(f"{shown} can be changed by other users. Run: chmod go-w {shown}")
            content = tomllib.load(file)
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        raise StartError(f"{shlex.quote(str(path.parent))} is a file, not a folder.") from None
    except OSError as refused:
        raise StartError(f"{shown} cannot be read: {refused.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as broken:
        raise StartError(f"{shown} is not TOML: {broken}.") from None
    for name in content:
        _refuse_unknown(name, _TYPES, f"{name} in {shown}")
    return {name: _value(name, f"{name} in {shown}", value, strict=True) for name, value in content.items()}


def _from_variables(environ: Mapping[str, str]) -> dict[str, Any]:
    settings = {PREFIX + name.upper(): name for name in _TYPES}
    chosen = {}
    for variable, text in environ.items():
        if not variable.startswith(PREFIX) or variable.startswith(FREE_PREFIXES):
            continue
        _refuse_unknown(variable, (*settings, *OTHER_VARIABLES), f"The variable {variable}")
        if variable in settings and text:
            name = settings[variable]
            is_list = _TYPES[name].__origin__ == tuple[str, ...]
            value = [part.strip() for part in text.split(",") if part.strip()] if is_list else text
            chosen[name] = _value(name, variable, value, strict=False)
    return chosen


def _from_flags(flags: Mapping[str, object]) -> dict[str, Any]:
    chosen = {}
    for name, value in flags.items():
        flag = "--" + name.replace("_", "-")
        _refuse_unknown(name, _TYPES, f"The flag {flag}")
        if value is not None:
            chosen[name] = _value(name, flag, value, strict=False)
    return chosen


def _refuse_unknown(name: str, known: Collection[str], place: str) -> None:
    if name not in known:
        nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.0)[0]
        raise StartError(f"{place} is not a setting of Rota. The nearest one is {nearest}.")


def _value(name: str, place: str, value: object, *, strict: bool) -> Any:
    try:
        return msgspec.convert(value, _TYPES[name], strict=strict, dec_hook=_path)
    except msgspec.ValidationError as wrong:
        # Of what msgspec says only the expectation is shown: a value may hold a password.
        expected = str(wrong).partition(", got")[0].replace("`", "")
        if expected.startswith("Invalid enum value"):
            expected = "Expected one of " + ", ".join(get_args(get_args(_TYPES[name])[0]))
        raise StartError(f"{place}: {expected}. {SETTINGS_HELP[name]}") from None


def _path(kind: type, value: object) -> object:
    if kind is Path and isinstance(value, (str, Path)):
        return Path(value)
    raise ValueError("Expected a path")


# What a type cannot say


def _judge(settings: Settings) -> None:
    if (settings.tls_cert is None) != (settings.tls_key is None):
        missing = "tls_key" if settings.tls_key is None else "tls_cert"
        raise StartError(f"{missing} is missing: tls_cert and tls_key go together.")
    if settings.database is not None:
        _judge_database(settings.database)
    if settings.public_url is not None and not _is_origin(settings.public_url):
        raise StartError("public_url must be http:// or https:// with a host, without path, user or query.")
    for proxy in settings.trusted_proxies:
        try:
            ipaddress.ip_network(proxy)
        except ValueError:
            raise StartError(f"trusted_proxies: {proxy!r} is no IP address and no network.") from None
    for host in settings.allowed_hosts:
        if not _HOST.fullmatch(host):
            raise StartError(f"allowed_hosts: {host!r} is no host name. Give it without scheme and port.")


def _judge_database(database: str) -> None:
    scheme = database.partition(":")[0].lower()
    if scheme in {"postgresql", "postgres"}:
        raise StartError("PostgreSQL is not available yet. Leave database out to use SQLite.")
    file = database.removeprefix(_SQLITE)
    if (
        file in {"", database}
        or file.startswith(":memory:")
        or not file.isprintable()
        or set(file) & set("?#%")
    ):
        raise StartError(
            "database must be sqlite:///FILE (sqlite:////FILE from the root), without ?, # and %."
        )


def _is_origin(url: str) -> bool:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return False
    bare = parts.path in {"", "/"} and not (parts.query or parts.fragment or "@" in parts.netloc)
    return bare and parts.scheme in {"http", "https"} and bool(parts.hostname)
