"""What `import rota` promises. A name leaves or enters this list together with a line in CHANGELOG.md."""

import rota

PUBLIC_NAMES = [
    "AsyncClient",
    "ClaimedJob",
    "CurrentJob",
    "Fail",
    "JobCancelled",
    "JobInfo",
    "JobSpec",
    "Retry",
    "RotaError",
    "Snooze",
    "Task",
    "Tasks",
    "Worker",
    "current_job",
    "task",
]


def test_public_names_are_exactly_these() -> None:
    assert sorted(rota.__all__) == PUBLIC_NAMES


def test_every_public_name_exists() -> None:
    assert [name for name in rota.__all__ if not hasattr(rota, name)] == []
