"""Every command does what its help says, in words and as JSON."""

from __future__ import annotations

import json
import re
import stat
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone

import httpx2
import pytest

from rota.clock import SystemClock
from tests.cli.commands import Rota, Server, environment


@pytest.fixture
def mail(rota: Rota, request: pytest.FixtureRequest) -> str:
    """A type of this test's own."""
    name = request.node.name.removeprefix("test_").replace("[", ".").replace("]", "")[:64].lower()
    rota.done("types", "put", name, "--max-retries", "1")
    return str(name)


def worker(server: Server) -> httpx2.Client:
    """A client for the calls that no command makes."""
    headers = {"Authorization": f"Bearer {server.admin_token}"}
    return httpx2.Client(base_url=server.url, headers=headers, trust_env=False)


class TestEnqueue:
    def test_job_is_stored_and_followed_by_its_number(self, rota: Rota, mail: str) -> None:
        ended = rota.done("enqueue", mail, '{"to": "ann"}')
        assert ended.out.startswith("Job ")
        number = ended.out.split()[1].rstrip(":")
        assert f"rota jobs show {number}" in ended.err
        assert rota.done("jobs", "show", number, "--json").json()["payload"] == {"to": "ann"}

    def test_json_is_the_api_answer_with_every_digit(self, rota: Rota, mail: str) -> None:
        ended = rota.done("enqueue", mail, '{"amount": 1.10}', "--json")
        assert ended.json()["status"] == "pending"
        assert '"amount": 1.10' in ended.out

    def test_payload_comes_through_a_pipe(self, rota: Rota, mail: str) -> None:
        ended = rota.process("enqueue", mail, "--json", stdin='{"n": 1}\n')
        assert ended.json()["payload"] == {"n": 1}

    @pytest.mark.parametrize("dash", [("-",), ()], ids=["dash", "file"])
    def test_payload_comes_from_stdin(self, rota: Rota, mail: str, dash: tuple[str, ...]) -> None:
        ended = rota.done("enqueue", mail, *dash, "--json", stdin='{"n": 1}\n')
        assert ended.json()["payload"] == {"n": 1}

    def test_payload_is_an_empty_object_when_none_is_given(self, rota: Rota, mail: str) -> None:
        assert rota.done("enqueue", mail, "--json").json()["payload"] == {}
        assert rota.done("enqueue", mail, "--json", stdin="").json()["payload"] == {}

    def test_options_reach_the_server(self, rota: Rota, mail: str) -> None:
        job = rota.done(
            *("enqueue", mail, "--priority", "high", "--delay", "2h", "--max-retries", "7"),
            *("--timeout", "1.5m", "--queue", "default", "--json"),
        ).json()
        assert (job["priority"], job["max_retries"], job["timeout_seconds"]) == ("high", 7, 90)
        assert job["run_at"] > job["created_at"]

    def test_misspelt_type_shows_the_one_that_was_meant(self, rota: Rota) -> None:
        rota.done("types", "put", "invoice.send")
        ended = rota("enqueue", "invoice.sned")
        assert ended.code == 1
        assert "the type invoice.sned is not declared. Did you mean invoice.send?" in ended.err
        assert "rota types put invoice.sned" in ended.err
        assert "types put" not in rota("enqueue", "Not A Name").err

    def test_instant_is_kept(self, rota: Rota, mail: str) -> None:
        soon = datetime.fromtimestamp(SystemClock().now() // 1000 + 3600, UTC)
        there = soon.astimezone(timezone(timedelta(hours=8)))
        ended = rota.done("enqueue", mail, "--run-at", there.isoformat(), "--json")
        assert ended.json()["run_at"] == f"{soon:%Y-%m-%dT%H:%M:%S}.000Z"

    def test_known_key_gives_back_the_same_job_and_says_so(self, rota: Rota, mail: str) -> None:
        first = rota.done("enqueue", mail, "{}", "--idempotency-key", mail, "--json").json()
        again = rota.done("enqueue", mail, "{}", "--idempotency-key", mail)
        assert f"Job {first['id']} was there already" in again.out
        other = rota.done("enqueue", mail, '{"a": 1}', "--idempotency-key", mail)
        assert "another type or payload" in other.err


class TestJobs:
    def test_list_shows_jobs_by_filter(self, rota: Rota, mail: str) -> None:
        waiting, gone = (rota.done("enqueue", mail, "--json").json()["id"] for _ in range(2))
        rota.done("jobs", "cancel", str(gone))
        everything = rota.done("jobs", "list", "--type", mail).out.splitlines()
        assert everything[0].split()[:2] == ["ID", "TYPE"]
        assert [line.split()[0] for line in everything[1:]] == [str(gone), str(waiting)]
        found = rota.done("jobs", "list", "--type", mail, "--status", "cancelled,failed", "--json").json()
        assert [job["id"] for job in found["items"]] == [gone]

    def test_long_list_says_how_to_go_on(self, rota: Rota, mail: str) -> None:
        ids = [rota.done("enqueue", mail, "--json").json()["id"] for _ in range(2)]
        first = rota.done("jobs", "list", "--type", mail, "--limit", "1")
        assert first.out.split("\n")[1].split()[0] == str(ids[1])
        cursor = first.err.split("--cursor ")[1].split()[0]
        rest = rota.done("jobs", "list", "--type", mail, "--limit", "1", "--cursor", cursor)
        assert rest.out.split("\n")[1].split()[0] == str(ids[0])

    def test_search_and_times_narrow_the_list(self, rota: Rota, mail: str) -> None:
        rota.done("enqueue", mail, '{"to": "needle"}')
        rota.done("enqueue", mail, '{"to": "hay"}')
        narrow = ("jobs", "list", "--type", mail, "--json")
        assert len(rota.done(*narrow, "--text", "needle").json()["items"]) == 1
        assert len(rota.done(*narrow, "--created-after", "2020-01-01T00:00:00Z").json()["items"]) == 2
        assert rota.done(*narrow, "--created-before", "2020-01-01T00:00:00Z").json()["items"] == []

    def test_token_that_sees_no_job_does_not_deny_that_there_are_any(
        self, rota: Rota, mail: str, server: Server
    ) -> None:
        rota.done("enqueue", mail)
        rota.done("tokens", "create", "sees-none", "--preset", "producer", "--out", "none.token")
        ended = rota.with_variables(ROTA_URL=server.url).done("jobs", "list", "--token-file", "none.token")
        assert "no job that this token may see" in ended.err

    def test_running_job_is_asked_to_stop_and_what_that_means_is_told(
        self, rota: Rota, mail: str, server: Server
    ) -> None:
        id = str(rota.done("enqueue", mail, "--json").json()["id"])
        with worker(server) as http:
            http.post("/jobs/claim", json={"types": [mail]}).raise_for_status()
        assert "then another worker gets it" in rota.done("jobs", "show", id).out
        assert "a sync function that does not look for it" in rota.done("jobs", "cancel", id).out

    def test_dead_letters_are_called_failed(self, rota: Rota) -> None:
        ended = rota("jobs", "list", "--status", "dead")
        assert ended.code == 1
        assert "dead letters are failed" in ended.err

    def test_empty_list_says_what_to_do_next(self, rota: Rota) -> None:
        ended = rota.done("jobs", "list", "--type", "no.such")
        assert ended.out == ""
        assert "without filters" in ended.err

    def test_waiting_job_says_when_it_is_due(self, rota: Rota, mail: str, server: Server) -> None:
        later = rota.done("enqueue", mail, "--delay", "2h", "--json").json()["id"]
        rota.done("enqueue", mail, "--priority", "critical", "--json")
        with worker(server) as http:
            held = http.post("/jobs/claim", json={"types": [mail]}).json()
            http.post(
                f"/jobs/{held['id']}/fail",
                json={"lease_token": held["lease_token"], "error": "busy", "retry_in_seconds": 3600},
            )
        listed = rota.done("jobs", "list", "--type", mail).out
        assert "pending (in 2h)" in listed
        assert "pending (retry in 1h)" in listed
        shown = rota.done("jobs", "show", str(held["id"])).out
        assert re.search(r"next try +\d{4}-\d\d-\d\d .* \(in 1h\)", shown)
        assert "not before" in rota.done("jobs", "show", str(later)).out

    def test_cancel_and_replay_go_on_after_a_refusal(self, rota: Rota, mail: str) -> None:
        one, two = (str(rota.done("enqueue", mail, "--json").json()["id"]) for _ in range(2))
        mixed = rota("jobs", "cancel", one, "999999", two)
        assert mixed.code == 1
        assert mixed.out.splitlines() == [f"Job {one} is cancelled.", f"Job {two} is cancelled."]
        assert "error: job 999999:" in mixed.err
        replayed = rota.done("jobs", "replay", one, two, "--json").out.splitlines()
        assert [json.loads(line)["status"] for line in replayed] == ["pending", "pending"]
        assert rota("jobs", "replay", one).code == 1


class TestTypes:
    def test_put_show_list_pause_resume_delete(self, rota: Rota) -> None:
        made = rota.done(
            *(
                "types",
                "put",
                "t.whole",
                "--description",
                "All of it",
                "--priority",
                "medium",
                "--lease",
                "2m",
            ),
            *(
                "--timeout",
                "1h",
                "--backoff",
                "fixed",
                "--backoff-base",
                "5s",
                "--max-retries",
                "9",
                "--json",
            ),
        ).json()
        assert (made["default_priority"], made["lease_seconds"], made["timeout_seconds"]) == (
            "medium",
            120,
            3600,
        )
        assert made["backoff"]["strategy"] == "fixed"
        assert made["backoff"]["base_seconds"] == 5
        shown = rota.done("types", "show", "t.whole").out
        assert "always 5 s" in shown
        assert "All of it" in shown
        assert rota.done("types", "show", "t.whole", "--json").json() == made
        assert "t.whole" in rota.done("types", "list").out
        rota.done("types", "pause", "t.whole")
        assert rota.done("types", "show", "t.whole", "--json").json()["paused"] is True
        assert rota.done("types", "resume", "t.whole", "--json").json()["paused"] is False
        assert rota.done("types", "delete", "t.whole", "--json").out == ""
        assert rota("types", "show", "t.whole").code == 1
        listed = rota.done("types", "list", "--json").json()["items"]
        assert "t.whole" not in {one["name"] for one in listed}

    def test_deleting_a_type_tells_what_becomes_of_its_jobs(self, rota: Rota) -> None:
        rota.done("types", "put", "t.waits")
        for _ in range(3):
            rota.done("enqueue", "t.waits")
        assert "Jobs of it that wait: 3. They come out" in rota.done("types", "delete", "t.waits").err

    def test_put_again_sets_what_is_left_out_to_its_default(self, rota: Rota) -> None:
        rota.done("types", "put", "t.again", "--max-retries", "9")
        lost = rota.done("types", "put", "t.again", "--backoff-base", "5s").err
        assert "max retries 9 → 3" in lost
        assert "base seconds 2.0 → 5.0" in lost
        assert rota.done("types", "put", "t.again", "--json").json()["max_retries"] == 3


class TestTokens:
    def test_create_prints_the_token_alone_on_stdout(self, rota: Rota, server: Server) -> None:
        made = rota.done("tokens", "create", "alone", "--preset", "observer")
        token = made.out.strip()
        assert token.startswith("rota_")
        assert made.out == token + "\n"
        assert token not in made.err
        assert "only time" in made.err
        holder = rota.with_variables(ROTA_URL=server.url, ROTA_TOKEN=token)
        holder.done("jobs", "list")
        refused = holder("enqueue", "any.type")
        assert refused.code == 1
        assert "Use a token with more rights" in refused.err

    def test_scopes_and_ranges_reach_the_server(self, rota: Rota) -> None:
        made = rota.done(
            *(
                "tokens",
                "create",
                "narrow",
                "--scopes",
                "jobs:read",
                "--scopes",
                "types:read",
                "--types",
                "a.b",
            ),
            *("--queues", "default", "--max-priority", "low", "--rate-limit-per-minute", "600"),
            *("--expires-at", "2099-01-01T00:00:00Z", "--json"),
        ).json()
        assert made["scopes"] == ["jobs:read", "types:read"]
        assert (made["types"], made["queues"], made["max_priority"]) == (["a.b"], ["default"], "low")
        assert (made["rate_limit_per_minute"], made["expires_at"]) == (600, "2099-01-01T00:00:00.000Z")

    def test_list_shows_rights_and_no_secret(self, rota: Rota) -> None:
        token = rota.done("tokens", "create", "listed", "--preset", "worker").out.strip()
        for shown, rights in (((), "worker"), (("--json",), "jobs:work")):
            listed = rota.done("tokens", "list", *shown).out
            assert "listed" in listed
            assert rights in listed
            assert token not in listed

    def test_rotated_token_replaces_the_old_one_and_revoked_ends(self, rota: Rota, server: Server) -> None:
        made = rota.done("tokens", "create", "turning", "--preset", "observer", "--json").json()
        renewed = rota.done("tokens", "rotate", made["key_id"]).out.strip()
        old = rota.with_variables(ROTA_URL=server.url, ROTA_TOKEN=made["token"])
        new = rota.with_variables(ROTA_URL=server.url, ROTA_TOKEN=renewed)
        assert old("jobs", "list").code == 1
        new.done("jobs", "list")
        assert rota.done("tokens", "revoke", made["key_id"], "--json").json()["revoked_at"] is not None
        assert new("jobs", "list").code == 1

    def test_token_goes_into_a_private_file_and_nowhere_else(self, rota: Rota) -> None:
        made = rota.done("tokens", "create", "filed", "--preset", "producer", "--out", "filed.token")
        file = rota.folder / "filed.token"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert file.read_text().startswith("rota_")
        assert file.read_text().strip() not in made.out + made.err
        assert "filed.token" in made.out

    def test_existing_file_is_never_overwritten_and_no_token_is_made(self, rota: Rota) -> None:
        file = rota.folder / "kept.token"
        file.write_text("kept")
        ended = rota("tokens", "create", "kept", "--preset", "producer", "--out", str(file))
        assert ended.code == 2
        assert "exists" in ended.err
        assert file.read_text() == "kept"
        assert "kept" not in {one["name"] for one in rota.done("tokens", "list", "--json").json()["items"]}

    def test_taken_name_leaves_no_file_and_shows_the_way_to_a_new_secret(self, rota: Rota) -> None:
        made = rota.done("tokens", "create", "taken", "--preset", "producer", "--json").json()
        again = ("tokens", "create", "taken", "--preset", "producer", "--out", "again.token")
        ended = rota(*again)
        assert ended.code == 1
        assert f"The token taken exists (key id {made['key_id']})" in ended.err
        assert "rota tokens rotate taken" in ended.err
        rota.done("tokens", "revoke", "taken")
        assert "has been revoked" in rota(*again).err
        assert not (rota.folder / "again.token").exists()

    def test_type_that_is_not_declared_is_told(self, rota: Rota, mail: str) -> None:
        flags = ("--preset", "worker", "--types", mail, "--types", "nope")
        told = rota.done("tokens", "create", "for-nope", *flags).err
        assert "There is no type nope yet" in told
        assert f"no type {mail}" not in told

    def test_file_and_json_exclude_each_other(self, rota: Rota) -> None:
        ended = rota("tokens", "create", "both", "--preset", "producer", "--out", "both.token", "--json")
        assert ended.code == 2
        assert not (rota.folder / "both.token").exists()

    def test_name_serves_as_well_as_the_key_id(self, rota: Rota, server: Server) -> None:
        rota.done("tokens", "create", "by-name", "--preset", "observer")
        rota.done("tokens", "rotate", "by-name", "--out", "by-name.token")
        holder = rota.with_variables(ROTA_URL=server.url)
        holder.done("jobs", "list", "--token-file", "by-name.token")
        assert "is revoked" in rota.done("tokens", "revoke", "by-name").out
        assert "was revoked already" in rota.done("tokens", "revoke", "by-name").out
        assert holder("jobs", "list", "--token-file", "by-name.token").code == 1
        assert rota("tokens", "revoke", "nobody").code == 1

    def test_token_needs_a_preset_or_scopes_but_not_both(self, rota: Rota) -> None:
        neither = rota("tokens", "create", "x")
        both = rota("tokens", "create", "x", "--preset", "worker", "--scopes", "jobs:read")
        assert (neither.code, both.code) == (2, 2)
        assert "rota tokens create x --preset worker" in neither.err


def test_server_writes_nothing_that_others_can_read(server: Server) -> None:
    assert stat.S_IMODE(server.data.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in server.data.iterdir()} == {0o600}


def test_reader_that_leaves_early_is_no_error(rota: Rota, mail: str) -> None:
    command = f"{sys.executable} -m rota jobs list --json | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", command],
        env=environment(**rota.variables),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
