"""Tasks: functions that are run as jobs.

    @task(max_retries=5)
    async def send_mail(to: str, subject: str) -> None: ...

    await send_mail.enqueue(client, to="ada@example.com", subject="Hello")   # a job; no await with a Client
    await send_mail.options(delay_seconds=60).enqueue(client, to="ada@example.com", subject="Hello")
    await send_mail(to="ada@example.com", subject="Hello")                    # an ordinary call

The payload is a JSON object of the arguments by name, checked by the function's annotations before
the call.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Callable, Coroutine, Iterable, Iterator
from functools import cached_property, update_wrapper
from pathlib import Path
from types import ModuleType
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Generic,
    ParamSpec,
    TypedDict,
    TypeVar,
    Unpack,
    get_type_hints,
    overload,
)

import msgspec

from rota.client import models
from rota.client.jobs import JobInfo, JobOptions, JobSpec, known_options
from rota.domain.names import NAME
from rota.errors import StartError

if TYPE_CHECKING:
    from rota.client.aio import AsyncClient
    from rota.client.client import Client

P = ParamSpec("P")
R = TypeVar("R")

_INNER_PATH: Final = re.compile(r" - at `([^`]*)` - at `(\$[^`]*)`$")
"""A model tells the fault's path within itself; msgspec adds that of the model."""
_UNNAMED: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.POSITIONAL_ONLY)


class TaskOptions(TypedDict, total=False):
    """What ``@task(…)`` takes; times in seconds."""

    name: str | None
    queue: str | None
    max_retries: int | None
    timeout: float | None
    lease: float | None
    priority: str | None


class BadPayload(Exception):  # raised and handled inside the worker
    """The payload does not fit the function's arguments; the text names the one at fault."""


class Task(Generic[P, R]):
    """A function and the type of jobs it handles. Calling it is an ordinary call."""

    def __init__(
        self,
        function: Callable[P, R],
        *,
        name: str | None = None,
        queue: str | None = None,
        max_retries: int | None = None,
        timeout: float | None = None,
        lease: float | None = None,
        priority: str | None = None,
    ) -> None:
        """``queue``, ``max_retries``, ``timeout`` (seconds) and ``priority`` go with each enqueue; None
        leaves them to the type on the server. ``lease`` (seconds) is what the worker's heartbeats ask for.
        """
        self.function = function
        self.name: str = name or getattr(function, "__name__", "") or ""
        if not NAME.fullmatch(self.name):
            raise ValueError(
                f"{self.name!r} cannot name a type of jobs: give a name= of at most 64 characters from "
                "a-z, 0-9, '.', '_' and '-'"
            )
        self.queue = queue
        self.max_retries = max_retries
        self.timeout = timeout
        self.lease = lease
        self.priority = priority
        self.is_async = inspect.iscoroutinefunction(function)
        self._signature = inspect.signature(function)
        self._open = False
        for parameter in self._signature.parameters.values():
            if parameter.kind in _UNNAMED:
                raise TypeError(
                    f"{self.name}: a task's arguments have names; {parameter} has none in a payload"
                )
            self._open |= parameter.kind is inspect.Parameter.VAR_KEYWORD
        update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<task {self.name}>"

    def job(self, *args: P.args, **kwargs: P.kwargs) -> JobSpec:
        """The job that calls the function with these arguments. Raises TypeError when they do not fit."""
        bound = self._signature.bind(*args, **kwargs).arguments
        if self._open:
            last = next(reversed(self._signature.parameters))
            bound |= bound.pop(last, {})
        return JobSpec(
            self.name,
            bound,
            queue=self.queue,
            priority=self.priority,
            max_retries=self.max_retries,
            timeout_seconds=self.timeout,
        )

    @overload
    def enqueue(self, client: Client, /, *args: P.args, **kwargs: P.kwargs) -> JobInfo: ...

    @overload
    def enqueue(
        self, client: AsyncClient, /, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, JobInfo]: ...

    def enqueue(self, client: Client | AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Store a job that calls the function with these arguments; ``await`` it with an AsyncClient."""
        return client.enqueue(self.job(*args, **kwargs))

    def options(self, **options: Unpack[JobOptions]) -> TaskWithOptions[P]:
        """The task with options for what is enqueued through it: ``fn.options(delay_seconds=60).enqueue(…)``.

        They go before those of ``@task``. Raises TypeError for a name that is no option.
        """
        return TaskWithOptions(self, known_options(options))

    def arguments(self, payload: bytes | msgspec.Raw) -> dict[str, Any]:
        """The arguments that a payload holds, as the annotations say. Raises BadPayload."""
        try:
            return self._decode(payload)
        except (msgspec.DecodeError, RecursionError) as fault:
            said = _INNER_PATH.sub(r" - at `\2\1`", str(fault)).replace("`$.", "argument `")
            raise BadPayload(f"{self.name}: {said}{self._missing_beside(said, payload)}") from None

    def _missing_beside(self, said: str, payload: bytes | msgspec.Raw) -> str:
        """The arguments that a payload with a misspelt name lacks: that name is all the decoder tells."""
        if "unknown field" not in said:
            return ""
        given = msgspec.json.decode(payload)
        missing = [
            f"`{one.name}`"
            for one in self._signature.parameters.values()
            if one.default is one.empty and isinstance(given, dict) and one.name not in given
        ]
        return f"; missing: {', '.join(missing)}" if missing else ""

    def argument_schema(self) -> dict[str, Any] | None:
        """JSON Schema of the arguments; None where it cannot be told. Raises StartError as ``check`` does."""
        try:
            return msgspec.json.schema(self._arguments, schema_hook=models.schema_of)
        except (TypeError, NotImplementedError):
            return None

    @cached_property
    def _arguments(self) -> type[msgspec.Struct]:
        """A struct of the arguments. Raises StartError when an annotation cannot be resolved."""
        try:
            hints = get_type_hints(self.function, include_extras=True)
            return msgspec.defstruct(
                "Arguments",
                [(one.name, hints.get(one.name, Any), _default(one.default)) for one in self._named()],
                kw_only=True,
                forbid_unknown_fields=not self._open,
            )
        except (TypeError, NameError) as fault:
            raise self._unreadable(fault) from None

    def _named(self) -> list[inspect.Parameter]:
        return [one for one in self._signature.parameters.values() if one.kind is not one.VAR_KEYWORD]

    def _unreadable(self, fault: Exception) -> StartError:
        return StartError(
            f"The arguments of task {self.name} cannot be read from JSON: {fault}. "
            "Annotate them with types that msgspec knows, or with pydantic models."
        )

    @cached_property
    def _decode(self) -> Callable[[bytes | msgspec.Raw], dict[str, Any]]:
        """Raises StartError when an annotation cannot be resolved or read from JSON."""
        names = tuple(one.name for one in self._named())
        try:
            decode = msgspec.json.Decoder(self._arguments, dec_hook=models.from_builtins).decode
        except (TypeError, NameError) as fault:
            raise self._unreadable(fault) from None
        if not self._open:
            return lambda payload: _named(decode(payload), names)
        return lambda payload: msgspec.json.decode(payload) | _named(decode(payload), names)

    def check(self) -> None:
        """Raise StartError now rather than at the first job when the annotations are of no use."""
        _ = self._decode


class TaskWithOptions(Generic[P]):
    """What :meth:`Task.options` returns."""

    def __init__(self, task: Task[P, Any], options: JobOptions) -> None:
        self._task = task
        self._options = options

    def job(self, *args: P.args, **kwargs: P.kwargs) -> JobSpec:
        """As :meth:`Task.job`, with the options."""
        return msgspec.structs.replace(self._task.job(*args, **kwargs), **self._options)

    @overload
    def enqueue(self, client: Client, /, *args: P.args, **kwargs: P.kwargs) -> JobInfo: ...

    @overload
    def enqueue(
        self, client: AsyncClient, /, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, JobInfo]: ...

    def enqueue(self, client: Client | AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> Any:
        """As :meth:`Task.enqueue`, with the options."""
        return client.enqueue(self.job(*args, **kwargs))


def _default(value: Any) -> Any:
    if value is inspect.Parameter.empty:
        return msgspec.field()
    return msgspec.field(default_factory=lambda: value)


def _named(arguments: Any, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(arguments, name) for name in names}


class Tasks:
    """A collection of tasks by name."""

    def __init__(self, tasks: Iterable[Task[..., Any]] = ()) -> None:
        self._by_name: dict[str, Task[..., Any]] = {}
        for one in tasks:
            self.add(one)

    def add(self, one: Task[..., Any]) -> None:
        """Raises ValueError when another task has the name."""
        if self._by_name.setdefault(one.name, one) is not one:
            raise ValueError(f"two tasks are named {one.name!r}")

    def get(self, name: str) -> Task[..., Any] | None:
        return self._by_name.get(name)

    def __iter__(self) -> Iterator[Task[..., Any]]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R]: ...

    @overload
    def task(self, /, **options: Unpack[TaskOptions]) -> Callable[[Callable[P, R]], Task[P, R]]: ...

    def task(self, function: Callable[..., Any] | None = None, /, **options: Unpack[TaskOptions]) -> Any:
        """As :func:`task`; the task also joins this collection."""

        def join(wrapped: Callable[..., Any]) -> Task[..., Any]:
            made = Task(wrapped, **options)
            self.add(made)
            return made

        return join if function is None else join(function)

    @classmethod
    def of_module(cls, module: ModuleType) -> Tasks:
        """All tasks among a module's names, those in its collections included."""
        found: dict[int, Task[..., Any]] = {}
        for value in vars(module).values():
            if isinstance(value, Task):
                found[id(value)] = value
            elif isinstance(value, Tasks):
                found.update((id(one), one) for one in value)
        return cls(found.values())


@overload
def task(function: Callable[P, R], /) -> Task[P, R]: ...


@overload
def task(**options: Unpack[TaskOptions]) -> Callable[[Callable[P, R]], Task[P, R]]: ...


def task(function: Callable[..., Any] | None = None, /, **options: Unpack[TaskOptions]) -> Any:
    """Make a function a task: ``@task``, or ``@task(name=…, queue=…, max_retries=…, timeout=…, lease=…,
    priority=…)``. Its type of jobs has the function's name unless ``name`` says another.
    """
    if function is not None:
        return Task(function)
    return lambda wrapped: Task(wrapped, **options)


def load(where: str) -> Tasks:
    """The tasks of ``MODULE`` or ``MODULE:NAME``, where NAME is a Tasks collection or one task.

    The current folder is searched too. Raises StartError when there is no such module or no task in it.
    """
    path, _, name = where.partition(":")
    if path.endswith(".py"):
        module_name = path.removesuffix(".py").replace("/", ".")
        raise StartError(f"{path} is a file; give the module's name. Did you mean {module_name}?")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(path)
    except ModuleNotFoundError as missing:
        if missing.name is None or not f"{path}.".startswith(f"{missing.name}."):
            raise
        raise StartError(f"There is no module {path!r} here; give the name one would import.") from None
    if not name:
        found = Tasks.of_module(module)
    else:
        value = getattr(module, name, None)
        found = value if isinstance(value, Tasks) else Tasks([value] if isinstance(value, Task) else [])
    if not len(found):
        raise StartError(f"{where} holds no tasks: mark functions with @rota.task.")
    return found
