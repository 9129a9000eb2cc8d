"""``python -m benchmarks``: run the scenarios, print their figures beside the aims, keep them as JSON."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from benchmarks import bulk, claims, drain, enqueue, finished, idle, lanes, latency, local
from benchmarks.figures import Figure, Run, markdown, plain_table
from benchmarks.machine import describe_machine
from benchmarks.scenario import FULL, QUICK, Place, Scale

SCENARIOS: Final[dict[str, Callable[[Scale, Place], Iterator[Figure]]]] = {
    "enqueue": enqueue.measure,
    "bulk": bulk.measure,
    "claims": claims.measure,
    "drain": drain.measure,
    "finished": finished.measure,
    "lanes": lanes.measure,
    "latency": latency.measure,
    "idle": idle.measure,
    "local": local.measure,
}
RESULTS: Final = Path("bench-results")
PAGE: Final = Path(__file__).parents[1] / "docs" / "benchmarks.md"
BEGIN, END = "<!-- newest run -->", "<!-- end of newest run -->"


def main() -> int:
    asked = _arguments()
    if asked.markdown is not None:
        _into_page(msgspec.json.decode(asked.markdown.read_bytes(), type=Run))
        return 0
    began = datetime.now(UTC)
    failed = []
    with tempfile.TemporaryDirectory(prefix="rota-bench-", dir=asked.dir) as folder:
        run = Run(
            began=began.strftime("%Y-%m-%d %H:%M UTC"),
            quick=asked.quick,
            machine=describe_machine(Path(folder)),
            figures=[],
        )
        for name in asked.only or SCENARIOS:
            print(f"{name} …", file=sys.stderr, flush=True)
            place = Place(Path(folder, name))
            place.folder.mkdir()
            try:
                run.figures += SCENARIOS[name](QUICK if asked.quick else FULL, place)
            except Exception as trouble:
                failed.append(name)
                print(f"{name} failed: {trouble}", file=sys.stderr)
    out = asked.out or RESULTS / f"{began:%Y%m%d-%H%M%S}-{run.machine.commit}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_bytes(msgspec.json.format(msgspec.json.encode(run), indent=1) + b"\n")
    print(plain_table(run.figures))
    print(f"\nfdatasync of 4 KiB {run.machine.fsync_ms} ms, commit {run.machine.commit}; kept in {out}")
    return 1 if failed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="a tenth of everything, once: a look, no figures"
    )
    parser.add_argument("--only", nargs="+", choices=SCENARIOS, metavar="NAME", help=", ".join(SCENARIOS))
    parser.add_argument("--out", type=Path, metavar="FILE.json", help="where to keep the run")
    parser.add_argument("--dir", type=Path, help="where the databases lie meanwhile: a real disk, 4 GB free")
    parser.add_argument(
        "--markdown", type=Path, metavar="FILE.json", help="run nothing; put that run's table into the page"
    )
    return parser.parse_args()


def _into_page(run: Run) -> None:
    before, begin, rest = PAGE.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise SystemExit(f"{PAGE.name} has no place for the table: '{BEGIN}' … '{END}'")
    PAGE.write_text(f"{before}{begin}\n{markdown(run)}\n{end}{after}")


if __name__ == "__main__":
    sys.exit(main())
