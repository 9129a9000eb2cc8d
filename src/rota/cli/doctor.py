"""``rota doctor``: what is wrong here, and what to do about it."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Annotated, Final

import msgspec
from cyclopts import App

from rota.cli import output
from rota.cli.failures import FAILED, OK
from rota.cli.values import FLAG, JSON
from rota.clock import SystemClock
from rota.doctor import Finding, judge
from rota.inspection import inspect

STYLES: Final = {"ok": "green", "warning": "yellow", "fault": "bold red"}

doctor = App(
    name="doctor",
    help_epilogue="""\
Examples:

  rota doctor
  rota doctor --data /var/lib/rota          as the user that runs the server
  rota doctor --deep                        compare every index, too
  rota doctor --json

It makes no file and changes nothing that is stored. Exit codes: 0 no fault,
1 at least one.""",
)


@doctor.default
def examine(
    *,
    data: Path | None = None,
    config: Path | None = None,
    deep: Annotated[bool, FLAG] = False,
    as_json: Annotated[bool, JSON] = False,
) -> int:
    """Look at the data folder, the database, the keys, the disk, the clock and the server.

    Parameters
    ----------
    data
        The data folder. Else ROTA_DATA, ./rota-data.
    config
        The settings file; else rota.toml in the data folder.
    deep
        Compare every index of the database with its table, which takes longer.
    """
    findings = judge(inspect(data, config, os.environ, SystemClock(), deep=deep))
    count = Counter(each.verdict for each in findings)
    if as_json:
        document = {"ok": count["fault"] == 0, "checks": findings}
        output.document(msgspec.json.format(msgspec.json.encode(document)))
    else:
        for each in findings:
            _show(each)
        output.hint(f"{count['ok']} ok, {count['warning']} warnings, {count['fault']} faults.")
    return FAILED if count["fault"] else OK


def _show(finding: Finding) -> None:
    output.say(f"{finding.verdict:8} {finding.check}: {finding.detail}", STYLES[finding.verdict])
    if finding.step is not None and finding.verdict != "ok":
        output.say(f"         do: {finding.step}")
