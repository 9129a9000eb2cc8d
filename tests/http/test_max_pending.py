"""``max_pending``: one producer cannot fill the queue for all others."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.live_server import LiveServer, problem


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with LiveServer(tmp_path_factory.mktemp("server"), max_pending=3) as live:
        yield live


def test_a_token_that_has_enough_waiting_is_turned_away_and_others_are_not(server: LiveServer) -> None:
    name = server.type()
    shop, other = server.token("producer"), server.token("producer")
    for _ in range(3):
        shop.enqueue(name)
    refused = shop.post("/jobs", {"type": name})
    problem(refused, 429, "rate-limited")
    assert int(refused.headers["retry-after"]) >= 1
    other.enqueue(name)
    problem(other.post("/jobs/batch", {"jobs": [{"type": name}] * 3}), 429, "rate-limited")
    problem(other.post("/jobs/batch?atomic=true", {"jobs": [{"type": name}] * 3}), 429, "rate-limited")
    assert server.admin.post("/jobs/batch", {"jobs": [{"type": name}] * 3}).status_code == 200
