"""``rota serve``: the server."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from rota import settings
from rota.cli.values import FLAG
from rota.server import serve as serve_with

serve = App(
    name="serve",
    help_epilogue="""\
Examples:

  rota serve                        for this machine only, data in ./rota-data
  rota serve --data /var/lib/rota --port 8600
  rota serve --host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem

The first start makes the data folder and writes the admin token into it,
readable by you alone; other commands on this machine find it there. Settings
may also stand in rota.toml in the data folder and in ROTA_… variables; flags
win. Ctrl-C or SIGTERM ends the server in order.""",
)


@serve.default
def run_server(
    *,
    data: Path | None = None,
    database: str | None = None,
    config: Path | None = None,
    host: str | None = None,
    port: int | None = None,
    tls_cert: Path | None = None,
    tls_key: Path | None = None,
    insecure_http: Annotated[bool | None, FLAG] = None,
    log_level: Literal["debug", "info", "warning", "error"] | None = None,
    log_json: Annotated[
        bool | None, Parameter(name=("--log-json", "--json"), negative="", show_default=False)
    ] = None,
) -> None:
    """Run the server on this machine. It says `Rota is ready on …` when it answers.

    Parameters
    ----------
    data
        The folder of the database, the keys and rota.toml; made when missing. Else ROTA_DATA, ./rota-data.
    database
        sqlite:///FILE to share an application's database; else rota.db in the data folder.
    config
        A settings file; else rota.toml in the data folder.
    host
        The address to listen on; else 127.0.0.1, this machine only.
    port
        The port; 0 takes any that is free. Else 8520.
    tls_cert
        A PEM file with the certificate chain; goes with --tls-key.
    tls_key
        A PEM file with the certificate's private key; goes with --tls-cert.
    insecure_http
        Listen beyond this machine although tokens can be read on the way.
    log_level
        The least level that is logged to stderr; else info.
    log_json
        Log one JSON object a line.
    """
    flags: dict[str, object] = {
        "database": database,
        "host": host,
        "port": port,
        "tls_cert": tls_cert,
        "tls_key": tls_key,
        "insecure_http": insecure_http,
        "log_level": log_level,
        "log_json": log_json,
    }
    serve_with(settings.load(data, config, os.environ, flags))
