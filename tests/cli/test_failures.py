"""Whatever goes wrong, a command says what and what to do about it, and never shows a stack trace."""

from __future__ import annotations

import socket
import threading

import pytest

from tests.cli.commands import Ended, Rota, Server


def told(ended: Ended, code: int, *parts: str) -> None:
    """It failed with this exit code, said these parts on stderr and nothing on stdout."""
    assert ended.code == code, ended.err
    assert ended.out == ""
    assert ended.err.startswith("error: ")
    for part in parts:
        assert part in ended.err


def unused_url() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


def test_server_that_is_away_is_reported_with_its_address(alone: Rota) -> None:
    url = unused_url()
    lost = alone.with_variables(ROTA_URL=url, ROTA_TOKEN="rota_x")
    told(lost.process("jobs", "list"), 1, url, "cannot be reached", "rota serve")
    told(lost("enqueue", "mail.send", "{}", "--json"), 1, url, "cannot be reached")


def test_wrong_token_is_refused_with_the_way_to_a_right_one(alone: Rota, server: Server) -> None:
    wrong = alone.with_variables(ROTA_URL=server.url, ROTA_TOKEN="rota_aaaaaaaaaaaa_" + "b" * 43)
    told(wrong.process("jobs", "list"), 1, "--token-file")
    told(wrong("types", "list", "--json"), 1, "ROTA_TOKEN")


@pytest.mark.parametrize("text", ["{to: ann}", "{'to': 'ann'}", '{"a": NaN}', '{"a": 1', "", "\udcff"])
def test_payload_that_is_no_json_is_a_misuse_with_an_example(rota: Rota, text: str) -> None:
    told(rota("enqueue", "mail.send", text), 2, "not JSON", "rota enqueue mail.send '{")
    if text.isascii() and text:
        told(rota("enqueue", "mail.send", "-", stdin=text), 2, "not JSON")


def test_unknown_type_is_refused_with_the_command_that_adds_it(rota: Rota) -> None:
    told(rota.process("enqueue", "no.such", "{}"), 1, "no.such", "rota types list", "rota types put no.such")


def test_misuse_ends_with_two_as_a_process_too(rota: Rota) -> None:
    told(rota.process("enqueue", "mail.send", "{bad"), 2, "not JSON")
    told(rota.process("jobs", "lst"), 2, "See: rota jobs --help")


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("nope",), "See: rota --help"),
        (("jobs", "lst"), "See: rota jobs --help"),
        (("jobs", "show"), "See: rota jobs show --help"),
        (("jobs", "show", "one"), "See: rota jobs show --help"),
        (("jobs", "list", "--nope"), "--nope"),
        (("jobs", "list", "--created-after", "yesterday"), "2026-12-01T08:30:00Z"),
        (("enqueue", "a.b", "{}", "--delay", "5 parsecs"), "not a duration"),
        (("tokens", "create", "x", "--preset", "god"), "producer"),
        (("types", "put", "a.b", "--backoff", "sometimes"), "exponential"),
        (("jobs", "list", "--url", "ftp://example.org"), "https://rota.example.com"),
        (("jobs", "list", "--url", "http://198.51.100.7", "--token-file", "/dev/null"), "one token"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_misuse_ends_with_two(rota: Rota, arguments: tuple[str, ...], part: str) -> None:
    told(rota(*arguments), 2, part)


@pytest.mark.parametrize(
    "arguments",
    [
        ("jobs", "show", "999999"),
        ("jobs", "cancel", "999999"),
        ("jobs", "list", "--limit", "201"),
        ("jobs", "list", "--cursor", "x"),
        ("jobs", "list", "--status", "nope"),
        ("types", "show", "no.such"),
        ("types", "put", "Not A Name"),
        ("types", "pause", "../tokens"),
        ("types", "delete", "no.such"),
        ("tokens", "revoke", "aaaaaaaaaaaa"),
        ("tokens", "rotate", "a/b?c"),
        ("enqueue", "mail.send", "{}", "--priority", "urgent"),
    ],
    ids=" ".join,
)
def test_what_the_server_refuses_ends_with_one(rota: Rota, arguments: tuple[str, ...]) -> None:
    told(rota(*arguments), 1)


def test_server_that_is_no_rota_is_reported(alone: Rota) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\n<html>")

        thread = threading.Thread(target=answer)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        ended = alone.with_variables(ROTA_URL=url, ROTA_TOKEN="rota_x")("jobs", "list", "--json")
        thread.join()
    told(ended, 1, "Rota server")


def test_misspelt_setting_stops_the_server_before_it_starts(alone: Rota) -> None:
    told(alone.with_variables(ROTA_PROT="1").process("serve"), 1, "ROTA_PORT")


def test_server_refuses_to_send_tokens_over_a_network_in_the_clear(alone: Rota) -> None:
    ended = alone.process("serve", "--host", "0.0.0.0", "--port", "0")
    assert ended.code == 1
    assert "--insecure-http" in ended.err


def test_fault_of_rotas_own_is_reported_without_a_stack_trace(
    alone: Rota, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.python_version", lambda: 1 // 0)
    told(alone("version"), 1, "Rota has a fault here: ZeroDivisionError", "report it")
