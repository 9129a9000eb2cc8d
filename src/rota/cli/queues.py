"""``rota queues``: where jobs wait, and holding them there."""

from __future__ import annotations

from typing import Annotated

from cyclopts import App

from rota.cli import output
from rota.cli.connection import JsonFlag, Server, ask
from rota.cli.values import FLAG
from rota.client import management

queues = App(
    name="queues",
    help_epilogue="""\
Examples:

  rota queues list                        what waits where
  rota queues put bulk                    make a queue to hand jobs in to
  rota queues pause bulk                  hand out no more of its jobs for now""",
)


@queues.command(
    name="list",
    help_epilogue="""\
Examples:

  rota queues list
  rota queues list --json""",
)
def list_queues(*, server: Server = Server(), as_json: JsonFlag = False) -> None:
    """List the queues and how many jobs wait and run in each; counts stop at 10,000."""
    reply = ask(server, management.queues(None))
    if as_json:
        return output.document(reply.body)
    output.table(
        ("QUEUE", "STATUS", "READY", "DELAYED", "RUNNING", "OLDEST READY"),
        [
            (
                queue.name,
                "paused" if queue.paused else "open",
                str(queue.ready),
                str(queue.delayed),
                str(queue.running),
                "–" if queue.oldest_ready_seconds is None else f"{queue.oldest_ready_seconds:,.0f} s",
            )
            for queue in reply.value.items
        ],
    )
    return None


@queues.command(
    name="put",
    help_epilogue="""\
Examples:

  rota queues put bulk
  rota queues put nightly --paused""",
)
def put(
    name: str,
    /,
    *,
    paused: Annotated[bool, FLAG] = False,
    server: Server = Server(),
    as_json: JsonFlag = False,
) -> None:
    """Make a queue that jobs may be handed in to, beside `default` and those that types name.

    Parameters
    ----------
    name
        What it is called: small letters, digits, dots, hyphens and underscores.
    paused
        Hand out none of its jobs until it is resumed. Without this, a queue stays as it is.
    """
    reply = ask(server, management.put_queue(name, True if paused else None))
    if as_json:
        return output.document(reply.body)
    output.say(f"The queue {name} takes jobs{' and is paused' if reply.value.paused else ''}.")
    return None


@queues.command(
    name="pause",
    help_epilogue="""\
Examples:

  rota queues pause bulk""",
)
def pause(name: str, /, *, server: Server = Server(), as_json: JsonFlag = False) -> None:
    """Hand out no more jobs of a queue; those that run go on, and new ones are taken.

    Parameters
    ----------
    name
        The queue's name.
    """
    reply = ask(server, management.pause_queue(name, True))
    if as_json:
        return output.document(reply.body)
    output.say(f"The queue {name} is paused.")
    return None


@queues.command(
    name="resume",
    help_epilogue="""\
Examples:

  rota queues resume bulk""",
)
def resume(name: str, /, *, server: Server = Server(), as_json: JsonFlag = False) -> None:
    """Hand out jobs of a paused queue again.

    Parameters
    ----------
    name
        The queue's name.
    """
    reply = ask(server, management.pause_queue(name, False))
    if as_json:
        return output.document(reply.body)
    output.say(f"The queue {name} is open again.")
    return None
