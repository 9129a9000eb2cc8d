"""``rota demo``: the demo on a terminal, as lines, or as one JSON document."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Annotated, Self

import msgspec
from cyclopts import App
from rich.progress import BarColumn, TaskID, TextColumn
from rich.progress import Progress as Bar
from rich.text import Text

from rota.cli import output
from rota.cli.failures import FAILED, OK
from rota.cli.values import FLAG, JSON
from rota.demo.run import Demo, Progress, Reporter, Summary
from rota.host import ADMIN_FILE

demo = App(
    name="demo",
    help_epilogue="""\
Examples:

  rota demo                     the standard library's files, under a minute
  rota demo --path ~/notes      your own files; they are only read
  rota demo --keep              leave the server up, to look around""",
)


@demo.default
def run_demo(
    *,
    path: Path | None = None,
    keep: Annotated[bool, FLAG] = False,
    as_json: Annotated[bool, JSON] = False,
) -> int:
    """Run a server and two workers on real files, kill one worker, and check that nothing is lost.

    Needs no server and leaves nothing behind. Exit code 0 says that every file was counted exactly once.

    Parameters
    ----------
    path
        The folder whose files are counted, at most 2,000 of them; else the Python standard library's.
    keep
        Stay up at the end and say how to look around; Ctrl-C ends it.
    """
    reporter: Reporter = Silent() if as_json else Lines()
    if not as_json and output.stdout().is_terminal:
        with Live() as reporter:
            return asyncio.run(_show(path, reporter, keep, as_json))
    return asyncio.run(_show(path, reporter, keep, as_json))


async def _show(path: Path | None, reporter: Reporter, keep: bool, as_json: bool) -> int:
    stopped = asyncio.Event()
    this = asyncio.current_task()
    assert this is not None
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, this.cancel)
    try:
        async with Demo(path, reporter, keep=keep) as demo:
            summary = await demo.run()
            if isinstance(reporter, Live):
                reporter.end()
            code = exit_code(summary, as_json=as_json)
            if keep:
                for number in (signal.SIGINT, signal.SIGTERM):
                    loop.add_signal_handler(number, stopped.set)
                _show_around(demo)
                await stopped.wait()
                output.hint(f"Stopping. What was stored stays in {demo.folder}; remove it when you like.")
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    return code


def exit_code(summary: Summary, *, as_json: bool) -> int:
    """Tell the summary; failed when the results do not agree with the direct count."""
    if as_json:
        output.document(msgspec.json.encode(summary))
    else:
        _tell(summary)
    return FAILED if summary.verdict.problems else OK


def _tell(summary: Summary) -> None:
    verdict = summary.verdict
    output.say("")
    output.fields(
        (
            ("files", f"{verdict.files:,}, with {verdict.words:,} words in {verdict.bytes / 1e6:,.1f} MB"),
            ("failed once", f"{verdict.stumbled:,}, on purpose; all succeeded when run again"),
            (
                "taken over",
                f"{verdict.taken_over:,} from a worker that fell silent; all succeeded when run again",
            ),
            ("dead letters", f"{verdict.dead_letters:,}, for files that do not exist; each was tried twice"),
            ("killed worker", f"pid {summary.killed_pid}, which held {summary.held:,} jobs"),
            ("time", f"{summary.seconds:.1f} s, {summary.jobs_per_second:,.0f} jobs a second"),
        )
    )
    output.say("")
    if verdict.problems:
        output.error("The result does not agree with the direct count:")
        for problem in verdict.problems:
            output.hint(f"  {problem}")
    else:
        output.say(
            "Verified: every file was counted exactly once, and each checksum and the sum of all words "
            "agree with a direct count. Nothing lost, nothing counted twice.",
            "bold green",
        )


def _show_around(demo: Demo) -> None:
    output.hint("")
    output.hint(
        f"The server is still up: {demo.url}  (health: {demo.url}/health/ready, API: {demo.url}/openapi.json)"
    )
    output.hint("Look around from another terminal:")
    for command in (
        "jobs list --status failed",
        "jobs list --type file.stumble --limit 5",
        "jobs show 1",
        "types list",
        "tokens list",
    ):
        output.hint(f"  rota {command} --data {demo.data}")
    output.hint(f"The commands use the admin token in {demo.data / ADMIN_FILE}; only you can read it.")
    output.hint("Ctrl-C ends the server and the workers.")


def _told(now: Progress) -> str:
    return (
        f"{now.done:,} of {now.total:,} done, {now.failed:,} failed, {now.retried:,} retried, "
        f"{now.per_second:,.0f} jobs/s"
    )


class Silent:
    """For programs, which read the summary only."""

    def stage(self, title: str, text: str) -> None:
        pass

    def progress(self, now: Progress) -> None:
        pass


class Lines:
    """Plain lines, for logs; a progress line only when there is progress."""

    def __init__(self) -> None:
        self._done = -1

    def stage(self, title: str, text: str) -> None:
        output.say(f"{title:<9} {text}")

    def progress(self, now: Progress) -> None:
        if now.done != self._done:
            self._done = now.done
            output.say(f"{'':<9} {_told(now)}")


class Live:
    """A bar that moves below the stages."""

    def __init__(self) -> None:
        self._bar = Bar(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=40),
            TextColumn("{task.fields[told]}", markup=False),
            console=output.stdout(),
        )
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def stage(self, title: str, text: str) -> None:
        line = Text.assemble((f"{title:<9} ", "bold"), output.visible(text))
        self._bar.console.print(line, soft_wrap=True)

    def progress(self, now: Progress) -> None:
        if self._task is None:
            self._task = self._bar.add_task(f"{'Jobs':<9}", total=now.total, told="")
        self._bar.update(self._task, completed=now.done, told=_told(now))

    def end(self) -> None:
        """Leave the bar as it stands."""
        self._bar.stop()
