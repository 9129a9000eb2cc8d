"""In-process mode: the client's interface on a data folder, judged and answered as by a server."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import rota
from rota import AsyncClient, Client, JobInfo, Local, current_job, task
from rota.client.protocol import Call
from rota.errors import JobNotHeld, NotFound, StartError, Unavailable, ValidationFailed
from rota.settings import load
from tests.live_server import LiveServer


@task
async def double(n: int) -> int:
    return 2 * n


@task
def shout(text: str) -> str:
    current_job().progress(1, 2, "half")
    current_job().log("shouting")
    return text.upper()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def client(folder: Path) -> Iterator[Client]:
    with Local(folder) as opened:
        opened.types.put("double")
        yield opened


async def ended(client: AsyncClient, *ids: int) -> list[JobInfo]:
    """The jobs once all are terminal."""
    while True:
        jobs = [await client.get(id) for id in ids]
        if all(job.status not in {"pending", "running"} for job in jobs):
            return jobs
        await asyncio.sleep(0.02)


def test_a_script_enqueues_and_reads_without_await(client: Client) -> None:
    job = double.enqueue(client, n=4)
    stored = client.enqueue_many([double.job(n=n) for n in range(120)])
    assert client.get(job.id).payload == {"n": 4}
    assert len(stored) == 120
    assert len(list(client.list(type="double", page_size=50))) == 121


def test_what_the_server_refuses_is_refused_with_the_same_errors(client: Client) -> None:
    with pytest.raises(ValidationFailed) as refused:
        client.enqueue("nobody.knows")
    assert refused.value.errors[0].field == "type"
    with pytest.raises(NotFound):
        client.get(999)
    job = double.enqueue(client, n=1)
    held = client.claim(types=["double"])
    assert held is not None
    assert held.id == job.id
    client.complete(held, 2)
    with pytest.raises(JobNotHeld):
        client.fail(held, "too late")


async def test_the_same_in_async_code(folder: Path) -> None:
    async with Local(folder) as client:
        await client.types.put("double")
        job = await double.enqueue(client, n=4)
        assert (await client.get(job.id)).status == "pending"
        assert [one.id async for one in client.list()] == [job.id]


def test_the_producer_is_the_application(folder: Path) -> None:
    ids = []
    for app in ("shop", "shop", "office"):
        with Local(folder, app_name=app) as client:
            client.types.put("double")
            job = client.enqueue("double", {"n": 1}, idempotency_key="once")
            ids.append((job.id, job.idempotency_replayed))
    assert [replayed for _, replayed in ids] == [False, True, False]
    assert ids[0][0] == ids[1][0] != ids[2][0]


def test_an_applications_own_database_can_be_shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_DATA", str(tmp_path / "keys"))
    with Local(f"sqlite:///{tmp_path}/app.db") as client:
        client.types.put("double")
        double.enqueue(client, n=1)
    assert (tmp_path / "app.db").is_file()


def test_data_that_cannot_be_used_is_told_and_leaves_nothing_running(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o755)
    before = threading.active_count()
    with pytest.raises(StartError, match="chmod 700"), Local(tmp_path / "open"):
        pass
    assert threading.active_count() == before


def test_a_closed_queue_says_so(folder: Path) -> None:
    local = Local(folder)
    with local as client:
        pass
    with pytest.raises(Unavailable, match="not open"):
        client.get(1)
    with pytest.raises(Unavailable, match="not open"):
        local.connect()


def test_closing_ends_a_claim_that_waits(folder: Path) -> None:
    got: list[object] = []
    with Local(folder) as client:
        client.types.put("double")
        waiting = threading.Thread(target=lambda: got.append(client.claim(types=["double"], wait_seconds=60)))
        waiting.start()
        job = double.enqueue(client, n=1)
        while client.get(job.id).status != "running":
            time.sleep(0.01)  # the state of the job is the signal
        waiting.join()
        waiting = threading.Thread(target=lambda: got.append(client.claim(types=["double"], wait_seconds=60)))
        waiting.start()
        time.sleep(0.1)  # the queue tells nobody who waits
    waiting.join(timeout=10)
    assert not waiting.is_alive()
    assert got[1] is None


async def test_a_cancelled_claim_gives_its_job_back(folder: Path) -> None:
    async with Local(folder) as client:
        await client.types.put("double")
        waiting = asyncio.create_task(client.claim(types=["double"], wait_seconds=60))
        await asyncio.sleep(0.1)
        waiting.cancel()
        job = await double.enqueue(client, n=1)
        held = await client.claim(types=["double"], wait_seconds=10)
        assert held is not None
        assert (held.id, held.retry_count) == (job.id, 0)


async def test_a_worker_runs_async_and_sync_tasks(folder: Path) -> None:
    local = Local(folder)
    async with local as client:
        await client.types.put("double")
        await client.types.put("shout")
        worker = local.worker([double, shout])
        serving = asyncio.create_task(worker.serve())
        ids = [(await double.enqueue(client, n=4)).id, (await shout.enqueue(client, text="hey")).id]
        doubled, shouted = await ended(client, *ids)
        worker.stop()
        await serving
        assert (doubled.result, shouted.result) == (8, "HEY")
        assert doubled.worker_id is None or doubled.worker_id.startswith("local/")
        assert [line.text for line in await client.logs(ids[1])] == ["shouting"]
        assert shouted.progress is not None
        assert shouted.progress.message == "half"


async def test_the_end_of_a_job_can_be_waited_for(folder: Path) -> None:
    local = Local(folder)
    async with local as client:
        await client.types.put("double")
        job = await double.enqueue(client, n=4)
        waiting = asyncio.create_task(client.wait(job.id, timeout=20))
        worker = local.worker([double])
        serving = asyncio.create_task(worker.serve())
        assert (await waiting).result == 8
        worker.stop()
        await serving


async def test_changes_stand_in_the_audit_under_the_applications_name(folder: Path) -> None:
    async with Local(folder, app_name="shop") as client:
        await client.types.put("double")
        entries = await client.send(Call("GET", "/audit", lambda answer: answer.body))
        assert b'"id":"local:shop"' in entries, entries


async def test_delayed_jobs_become_ready_without_a_server(folder: Path) -> None:
    local = Local(folder)
    async with local as client:
        await client.types.put("double")
        worker = local.worker([double])
        serving = asyncio.create_task(worker.serve())
        job = await client.enqueue("double", {"n": 1}, delay_seconds=0.3)
        (done,) = await ended(client, job.id)
        worker.stop()
        await serving
        assert done.status == "completed"


async def test_a_handler_that_blocks_the_loop_keeps_its_lease(folder: Path) -> None:
    runs = []

    @task
    async def block() -> None:
        runs.append(current_job().attempt)
        time.sleep(4.5)  # noqa: ASYNC251  # the case: nothing else runs in this loop

    local = Local(folder)
    async with local as client:
        await client.types.put("block", lease_seconds=2)
        worker = local.worker([block])
        serving = asyncio.create_task(worker.serve())
        job = await block.enqueue(client)
        (done,) = await ended(client, job.id)
        worker.stop()
        await serving
        assert (done.status, runs) == ("completed", [1])


async def test_a_server_on_the_same_folder_sees_and_serves_the_same_jobs(tmp_path: Path) -> None:
    local = Local(tmp_path / "data")
    async with local as client:
        await client.types.put("double")
        with LiveServer(tmp_path) as server:
            async with AsyncClient(server.url, server.admin.token) as remote:
                there = await remote.enqueue("double", {"n": 1})
                assert (await client.get(there.id)).status == "pending"
                worker = local.worker([double])
                serving = asyncio.create_task(worker.serve())
                (done,) = await ended(remote, there.id)
                assert done.result == 2
                worker.stop()
                await serving
                waiting = asyncio.create_task(remote.claim(types=["double"], wait_seconds=20))
                here = await double.enqueue(client, n=3)
                held = await waiting  # woken by a commit of this process
                assert held is not None
                assert held.id == here.id


def test_the_settings_of_the_folder_hold(folder: Path) -> None:
    folder.mkdir(mode=0o700)
    (folder / "rota.toml").write_text('app_name = "till"\n')
    assert load(folder, None, {}, {}).app_name == "till"
    with Local(folder) as client:
        client.types.put("double")
        first = client.enqueue("double", idempotency_key="k")
    with Local(folder, app_name="till") as client:
        assert client.enqueue("double", idempotency_key="k").id == first.id


def test_one_local_is_opened_once_at_a_time(folder: Path) -> None:
    local = rota.Local(folder)
    with local, pytest.raises(RuntimeError, match="open already"), local:
        pass
