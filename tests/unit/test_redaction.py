"""What must vanish from error, log and progress text, and what must stay readable."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.domain.redaction import CUT, RULES, clean, cut, window

LIMIT = 8_192
TOKEN = "rota_abc123def456_" + "Zx9" * 14 + "Q"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N"
PEM_BODY = "MIIEpAIBAAKCAQEA7vq3yyQ0Zp9\nabcDEF+/0123456789abcdef=="
PEM = f"-----BEGIN RSA PRIVATE KEY-----\n{PEM_BODY}\n-----END RSA PRIVATE KEY-----"

# (text, what must not be seen, what must still be seen)
SECRETS = [
    (f"refused {TOKEN} at once", TOKEN[10:], "refused [secret] at once"),
    ("Authorization: Bearer abc.DEF-123~x", "abc.DEF", "Authorization: [secret]"),
    ("curl -H 'Authorization: Basic dXNlcjpwYXNz' failed", "dXNlcjpwYXNz", "' failed"),
    ("[(b'authorization', b'Basic dXNlcjpwYXNz')]", "dXNlcjpwYXNz", "authorization"),
    ('{"Authorization": "Digest username=bob, response=77"}', "77", '"}'),
    ("sent bearer 0123456789abcdef", "0123456789abcdef", "sent bearer"),
    ("sent Basic dXNlcjpwYXNzd29yZA== twice", "dXNl", "twice"),
    ('Set-Cookie: session="q7w8"; Path=/; id=55ee', "55ee", "Set-Cookie"),
    ("key AKIAIOSFODNN7EXAMPLE denied", "IOSFODNN7", "denied"),
    ("aws_secret_access_key=wJalrXUtnFEMI/K7MDENG/bPx", "wJalr", "aws_secret_access_key="),
    (f"jwt {JWT} expired", "eyJ", "expired"),
    ("jwt " + JWT[:30], "eyJ", "jwt"),
    ("Incorrect API key provided: sk-proj-abcdefghij0123456789", "abcdefghij", "Incorrect API key"),
    (f"cannot load {PEM} here", "MIIEp", "here"),
    (json.dumps({"key": PEM, "n": 1}), "MIIEp", '"n": 1}'),
    (f"cut off: {PEM[:60]}", "MIIEp", "cut off"),
    ("password=hunter2 is wrong", "hunter2", "is wrong"),
    ("PASSWORD = hunter2", "hunter2", "PASSWORD"),
    ("passwd: hunter2, user: bob", "hunter2", "user: bob"),
    ("DB_PASS=hunter2", "hunter2", "DB_PASS="),
    ("secret='it''s a \\' secret' rest", "it", "rest"),
    ('{"password": "hun\\"ter2", "user": "bob"}', "ter2", '"user": "bob"}'),
    ("{'client_secret': 'hunter2', 'user': 'bob'}", "hunter2", "'user': 'bob'}"),
    ("{b'api_key': b'hunter2'}", "hunter2", "api_key"),
    ('"{\\"password\\":\\"hunter2\\",\\"a\\":1}"', "hunter2", '\\"a\\":1'),
    ('{"passwords": ["hunter2", "hunter3"], "n": 1}', "hunter3", '"n": 1'),
    ("Config(password=SecretStr('hunter2'), port=5)", "hunter2", "port=5"),
    ("accessToken: hunter2", "hunter2", "accessToken"),
    ("GET https://h.example/x?api_key=hunter2&page=2", "hunter2", "&page=2"),
    ("https://b.example/o?X-Amz-Signature=ab12cd&x=1", "ab12cd", "x=1"),
    ("next=%2Fx&token%3Dhunter2", "hunter2", "next="),
    ("<password>hunter2</password>", "hunter2", "</password>"),
    ("['mysql', '--password', 'hunter2', '-h', 'db']", "hunter2", "'-h', 'db'"),
    ("tool --api-key hunter2 --verbose", "hunter2", "--verbose"),
    ("curl -u bob:hunter2 https://h.example", "hunter2", "https://h.example"),
    ("login with password 'hunter2' failed", "hunter2", "failed"),
    ("the password is hunter2 now", "hunter2", "the password is [secret] now"),
    ("rejected token abc123def: unknown", "abc123", "unknown"),
    ("user->password->hunter2", "hunter2", "user->password->"),
    ("openssl -passin pass:hunter2 -in x", "hunter2", "-in x"),
    ("post to https://chat.example/api/webhooks/123/abcDEF", "abcDEF", "https://chat.example"),
    ("密码\uff1ahunter2 错误", "hunter2", "错误"),
    ("password=ab&cd is wrong", "cd", "is wrong"),
    ("password=ab,cd;ef;Timeout=30", "cd", "Timeout=30"),
    ("postgres://bob:hunter2@db.example:5432/app is down", "hunter2", "postgres://[secret] is down"),
    ("postgres://bob:hunter2@db.example:5432/app", "db.example", "postgres://[secret]"),
    ("postgres://bob:hunter2@db.example:5432/app", "app", "postgres://[secret]"),
    ("('postgresql+psycopg://bob:hunter2@[::1]:5432/app?x=1', 5)", "::1", "://[secret]', 5)"),
    ("lost amqp://bob:hunter2@one,two/v: retrying", "two", "lost amqp://[secret]: retrying"),
    ("mongodb+srv://bob:p@ss/w0rd@db.example/app", "w0rd", "mongodb+srv://[secret]"),
    ("redis://:hunter2@cache:6379/0 down", "cache", "redis://[secret] down"),
    ("mysql -u root -phunter2 app", "hunter2", "mysql -u root -p[secret] app"),
    ("sh -c 'mysqldump --all -p\"hun ter2\" >x'", "ter2", "mysqldump --all -p[secret] >x"),
    ("['mariadb-dump', '-phunter2', 'app']", "hunter2", "['mariadb-dump', '-p[secret]', 'app']"),
    ("https://bob:hunter2@h.example/a@b", "hunter2", "@h.example/a@b"),
    ("https://hunter2@h.example/x?y=1", "hunter2", "@h.example/x?y=1"),
    ("https://bob:hun@ter2@h.example/x", "hun", "@h.example/x"),
    ("https://bob:hun/ter2@h.example/", "ter2", "@h.example/"),
    ("see http://a.example?next=https://x:hunter2@b.example/", "hunter2", "@b.example/"),
    ("bob:hunter2@tcp(db:3306)/app", "hunter2", "@tcp(db:3306)"),
    ("jdbc:oracle:thin:scott/tiger@//db:1521/x", "tiger", "db:1521"),
    ("host=db user=bob password='hunter 2' dbname=app", "hunter", "dbname=app"),
    ("Server=db;Uid=sa;Pwd=hunter2;Timeout=30", "hunter2", "Timeout=30"),
    ("cannot open '/home/bob/My Files/a.txt' now", "bob", "cannot open '[path]' now"),
    ("cannot open /srv/app/conf.d/x.yaml: denied", "conf.d", "cannot open [path]: denied"),
    ("PATH=/usr/bin:/home/bob/bin", "bob", "PATH="),
    ("read ~/notes twice", "notes", "read [path] twice"),
    ("read ~/.ssh/id_ed25519 failed", "id_ed25519", "read [path] failed"),
    ("no file C:\\Users\\bob\\My Docs\\a.txt here", "bob", "no file [path] here"),
    (json.dumps({"f": "C:\\Users\\bob\\a.txt"}), "bob", '"}'),
    ("mount \\\\server\\share\\x lost", "server", "mount [path] lost"),
    ("open file:///home/bob/a.txt", "bob", "open [path]"),
    ("sqlite:////var/lib/rota/rota.db locked", "rota.db", "locked"),
    ("missing /settings.toml", "settings", "missing [path]"),
]

HARMLESS = [
    "ValueError: invalid literal for int() with base 10: 'x'",
    "KeyError: 'password'",
    "SyntaxError: Unexpected token: '}' at position 3",
    "Unexpected token < in JSON at position 0",
    "password: must be at least 12 characters",
    "Access denied for user 'root'@'localhost' (using password: YES)",
    "token=None, password=None",
    "FATAL: password authentication failed for user bob; token expired at 10:00",
    "KeyError('token')",
    "2 pass: 2, tests pass:12 fail:0",
    "max_tokens=4096 exceeded, tokens: 512",
    "the secretary wrote to bob@example.com",
    "Basic authentication failed; bearer token is missing",
    "https://docs.example.com:8080/a/b/c.html?page=2&sort=asc#top",
    "https://medium.com/@author/post-1",
    "GET /v1/users/42 answered 503",
    "2026-12-01T10:20:30.123Z and 2026/12/01 10:20",
    '{"id":1970670598291982290,"tags":["a","b"],"ok":true,"x":null}',
    "{'a': 1, 'b': [1, 2], 'c': {'d': 'e'}}",
    "expected application/json or text/plain, and/or n/a, 3/4 done",
    "ConnectionRefusedError: [Errno 111] Connect call failed ('10.0.0.1', 5432)",
    "job 018f3c1e-7b2a-7c3d-9e4f-0123456789ab failed",
    "sha256 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0ba22cd15d6c15b0f00a08",
    "任务失败\uff1a余额不足、订单 42",
    "global-configuration-of-all-things and task-runner-with-a-long-name",
    "line one\n\tline two",
    "ratio 10 % / 20 % * * */5 a:b c=d",
    "amqp://broker.example:5672/v and postgres://db.example/app refused",
    "mkdir -path x, ssh -p2222 host, mysql -p, then -P 3306",
    "mysql is down\nssh -p2222 host",
]


@pytest.mark.parametrize(("text", "gone", "kept"), SECRETS)
def test_secret_vanishes_and_its_surroundings_stay(text: str, gone: str, kept: str) -> None:
    cleaned = clean(text, LIMIT)
    assert gone not in cleaned
    assert kept in cleaned
    assert clean(cleaned, LIMIT) == cleaned


PREFIXES = [
    *("ghp_", "gho_", "github_pat_", "glpat-", "xoxb-", "xapp-1-", "sk_live_", "rk_test_", "whsec_", "AIza"),
    *("ya29.", "GOCSPX-", "sk-", "sk-ant-api03-", "hf_", "npm_", "pypi-", "SG.", "hvs.", "123456789:AA"),
]


@pytest.mark.parametrize("prefix", PREFIXES)
def test_token_of_a_known_service_vanishes(prefix: str) -> None:
    body = "q7Rt2Zm9" * 6
    assert clean(f"rejected {prefix}{body}, retry", LIMIT) == "rejected [secret], retry"


@pytest.mark.parametrize(
    "key", ["dop_v1_" + "ab12" * 16, "shpat_" + "ab12" * 8, "AGE-SECRET-KEY-1" + "QP" * 20]
)
def test_key_in_a_narrow_alphabet_vanishes(key: str) -> None:
    assert clean(f"rejected {key}, retry", LIMIT) == "rejected [secret], retry"


@pytest.mark.parametrize("text", HARMLESS)
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert clean(text, LIMIT) == text


PYTHON_TRACE = """Traceback (most recent call last):
  File "/srv/app/run.py", line 3, in main
    connect(key)
    ~~~~~~~^^^^^
  [Previous line repeated 9 more times]
ValueError: bad port

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/srv/app/run.py", line 9, in <module>
    main()
app.Failed: no luck"""

TRACES = [
    (PYTHON_TRACE, ("run.py", "connect"), ("ValueError: bad port", "app.Failed: no luck")),
    (repr(PYTHON_TRACE), ("run.py", "connect"), ("ValueError: bad port", "app.Failed: no luck")),
    (json.dumps({"e": PYTHON_TRACE}), ("run.py",), ('{"e": "[stack trace]', 'no luck"}')),
    (
        (
            "  + Exception Group Traceback (most recent call last):\n"
            '  |   File "a.py", line 1, in f\n  |     go()\n  | ExceptionGroup: two (2 sub-exceptions)\n'
            "  +-+---------------- 1 ----------------\n    | Traceback (most recent call last):\n"
            '    |   File "b.py", line 2, in g\n    |     stop()\n    | ValueError: x'
        ),
        ("a.py", "b.py", "go()", "stop()"),
        ("ExceptionGroup: two", "ValueError: x"),
    ),
    (
        '  File "x.py", line 1\n    foo bar\n        ^^^\nSyntaxError: invalid syntax',
        ("x.py", "foo bar"),
        ("SyntaxError: invalid syntax",),
    ),
    (
        (
            "java.io.IOException: closed\n\tat com.acme.Bar.baz(Bar.java:12)\n\t... 3 more\n"
            "Caused by: java.lang.Error: why\n\tat com.acme.Foo.<init>(Foo.java:1)"
        ),
        ("Bar.java", "Foo.java", "3 more"),
        ("java.io.IOException: closed", "Caused by: java.lang.Error: why"),
    ),
    (
        "TypeError: x is not a function\n    at run (/srv/app/a.js:1:2)\n    at node:internal/main:5:9",
        ("a.js", "node:internal"),
        ("TypeError: x is not a function",),
    ),
    (
        "panic: oh no\n\ngoroutine 1 [running]:\nmain.main()\n\t/tmp/x.go:8 +0x1d\nexit status 2",
        ("x.go", "main.main"),
        ("panic: oh no", "exit status 2"),
    ),
    ("boom\n\tfrom a.rb:12:in `run'\nend", ("a.rb",), ("boom", "end")),
    ("Fatal: boom\n#0 index.php(12): run()\n#1 {main}", ("index.php", "{main}"), ("Fatal: boom",)),
]


@pytest.mark.parametrize(("text", "gone", "kept"), TRACES)
def test_stack_trace_vanishes_and_the_exception_stays(
    text: str, gone: tuple[str, ...], kept: tuple[str, ...]
) -> None:
    cleaned = clean(text, LIMIT)
    assert "[stack trace]" in cleaned
    assert not [part for part in gone if part in cleaned]
    assert not [part for part in kept if part not in cleaned]
    assert clean(cleaned, LIMIT) == cleaned


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x00b", "a\\u0000b"),
        ("a\ud800b\udfff", "a\\ud800b\\udfff"),
        ("\ud83d\ude00 and 😀", "\\ud83d\\ude00 and 😀"),
        ("\x1b[31mred\x7f\x85", "\\u001b[31mred\\u007f\\u0085"),
        ("one\r\ntwo\rthree\tfour", "one\ntwo\\u000dthree\tfour"),
        ("abc\u202ecba\u2028", "abc\\u202ecba\\u2028"),
    ],
)
def test_unsafe_characters_become_visible(text: str, shown: str) -> None:
    assert clean(text, LIMIT) == shown


def test_cut_text_says_so_and_fits() -> None:
    cleaned = clean("é" * 100, 50)
    assert cleaned == "é" * 20 + CUT
    assert len(cleaned.encode()) == 49


def test_text_at_the_limit_is_not_cut() -> None:
    assert clean("x" * 50, 50) == "x" * 50


@pytest.mark.parametrize("most", [0, 3, 8, 9, 60, 4_000])
def test_a_hard_cut_halves_no_word_and_says_so(most: int) -> None:
    text = f"{TOKEN} " * 100
    shortened = cut(text, most)
    assert len(shortened) <= most
    assert shortened == CUT[:most] or shortened.endswith(CUT)
    assert "Zx9" not in clean(shortened, LIMIT)
    assert cut("short", 5) == "short"


@pytest.mark.parametrize("limit", range(20))
def test_tiny_limits_hold(limit: int) -> None:
    assert len(clean("password=hunter2 日本語 " * 3, limit).encode()) <= limit


@pytest.mark.parametrize("before", range(0, 80, 3))
def test_secret_across_the_cut_is_never_half_shown(before: int) -> None:
    cleaned = clean("x" * before + f" {TOKEN} password=hunter2-hunter2", 80)
    assert TOKEN[18:24] not in cleaned
    assert "hunt" not in cleaned
    assert cleaned.endswith(CUT) or len(cleaned.encode()) <= 80


@pytest.mark.parametrize("offset", [1, 20, 30, 50, 60])
def test_secret_across_the_end_of_what_is_looked_at_is_never_half_shown(offset: int) -> None:
    # Long paths shrink to marks, so that the end of the window comes into the answer.
    filler = "/home/" + "p" * 4_000 + " "
    text = (filler * 5)[: window(LIMIT) - offset - 1] + " " + TOKEN + " end" * 9_000
    cleaned = clean(text, LIMIT)
    assert "rota_" not in cleaned
    assert cleaned.endswith(CUT)


def test_text_made_to_reveal_something_at_each_replacement_still_settles() -> None:
    text = "password=" * 50 + "--token " * 50 + "://" * 50 + "a@" * 50
    once = clean(text, LIMIT)
    assert clean(once, LIMIT) == once


PIECES = st.sampled_from(
    (
        *(TOKEN, JWT, PEM, PYTHON_TRACE, CUT, "[secret]", "[path]", "[stack trace]", "password", "token"),
        *("=", ": ", '"', "'", "\\", "\\n", "\n", "\n    at f(x:1)", "  ", "/", "/home", "C:\\", "://", "@"),
        *("http", "postgres", "Bearer ", "cookie: ", "--", ",", ";", "&", "[", "]", "(", ")", "{", "}"),
        *("\x00", "\ud800", "é", "日", "😀", "x1", "~", ".", "-", "<", ">", "secret", "Traceback ("),
    )
)
HOSTILE = st.lists(PIECES | st.text(max_size=8), max_size=30).map("".join)


@settings(max_examples=400, deadline=None)
@given(HOSTILE, st.integers(0, 300) | st.just(LIMIT))
def test_cleaning_is_idempotent_fits_and_is_safe_to_store(text: str, limit: int) -> None:
    cleaned = clean(text, limit)
    assert clean(cleaned, limit) == cleaned
    assert len(cleaned.encode("utf-8")) <= limit
    assert not [c for c in cleaned if ord(c) < 32 and c not in "\n\t"]


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=40), st.text(max_size=40), st.text("abcdefgh0123456789", min_size=43, max_size=43))
def test_token_vanishes_whatever_stands_around_it(before: str, after: str, secret: str) -> None:
    assert secret not in clean(f"{before}rota_abc123def456_{secret}{after}", LIMIT)


LITERALS = sorted({literal for rule in RULES for literal in rule.literals})


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES | st.sampled_from(LITERALS) | st.text(max_size=4), max_size=14).map("".join))
def test_a_rule_finds_from_its_literals_what_it_finds_anywhere(text: str) -> None:
    for rule in RULES:
        spread = text.replace("\n", "\n" + " " * 400)  # sparse enough to be tried literal by literal
        assert rule.replaced(spread, spread.lower()) == rule.pattern.sub(rule.replacement, spread)


HOSTILE_SHAPES = [
    *("a", "/", "/a", "a/", "\\", "C:\\", "eyJ", "eyJ.", "://", "a://", "a://b:c/", "http://a:b"),
    *("password", "password=", "password='", "token: (", "secret=[", '"', "'/", "'/home", "-----BEGIN "),
    *("-----BEGIN PRIVATE KEY-----", "bearer ", "Basic aa", "\\n", "\n", "  at ", "(", "@", ",", ";a"),
    *("Traceback (most recent call last):\n", "goroutine 1 [x]:\n((((", "cookie:a", "=", "-u ", "--token "),
    *("a--", "-----END", "://@", "password is ", '="', 'cookie:="', "C:/a b/", "1234567890:"),
    *("\x00", "jdbc:oracle:thin:", "~", "~/", ".", "\\\\a", "password=,a", "a@tcp", "#1 ", "((((", "sk-"),
]


@pytest.mark.parametrize("shape", HOSTILE_SHAPES)
def test_hostile_text_costs_in_proportion_to_its_length(shape: str) -> None:
    def cost(size: int) -> float:
        text = (shape * (size // len(shape) + 1))[:size]
        began = time.process_time()
        clean(text, LIMIT)
        return time.process_time() - began

    small, large = cost(8_000), cost(64_000)
    # Eight times the text: 8 where linear, 64 where quadratic. Tiny times are noise.
    assert large < 0.05 or large < 30 * max(small, 0.001)
    assert cost(1_048_576) < 10 * max(large, 0.05)
