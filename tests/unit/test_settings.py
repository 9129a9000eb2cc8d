from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rota import settings
from rota.errors import StartError
from rota.settings import SETTINGS_HELP, Settings, check_bind


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


def load(
    data: Path | None = None,
    *,
    file: str | None = None,
    config: Path | None = None,
    environ: Mapping[str, str] | None = None,
    **flags: object,
) -> Settings:
    if file is not None:
        path = config or (data or Path()) / "rota.toml"
        path.write_text(file, encoding="utf-8")
        path.chmod(0o600)
    return settings.load(data, config, environ or {}, flags)


def test_defaults_are_a_private_server_on_sqlite(data: Path) -> None:
    chosen = load(data)
    assert (chosen.host, chosen.port, chosen.database) == ("127.0.0.1", 8520, None)
    assert chosen.database_file == data / "rota.db"
    assert not chosen.insecure_http
    assert chosen.sweep_interval_ms <= 500
    check_bind(chosen)


def test_every_setting_has_one_line_of_help() -> None:
    assert set(SETTINGS_HELP) == set(Settings.__struct_fields__)
    for line in SETTINGS_HELP.values():
        assert line.endswith(".")
        assert "\n" not in line


def test_flags_win_over_variables_and_variables_over_the_file(data: Path) -> None:
    file = 'host = "::1"\nport = 1\napp_name = "file"\nallowed_hosts = ["a", "b"]'
    environ = {"ROTA_PORT": "2", "ROTA_APP_NAME": "variable"}
    chosen = load(data, file=file, environ=environ, app_name="flag", port=None)
    assert (chosen.host, chosen.port, chosen.app_name) == ("::1", 2, "flag")
    assert chosen.allowed_hosts == ("a", "b")


@pytest.mark.parametrize("mode", [0o660, 0o606, 0o620, 0o602, 0o666])
@pytest.mark.parametrize("named", [False, True])
def test_a_file_that_others_can_change_is_refused(data: Path, tmp_path: Path, mode: int, named: bool) -> None:
    path = tmp_path / "my settings.toml" if named else data / "rota.toml"
    path.write_text("insecure_http = true", encoding="utf-8")
    path.chmod(mode)
    with pytest.raises(StartError) as refused:
        load(data, config=path if named else None)
    assert f"chmod go-w {shlex.quote(str(path))}" in str(refused.value)
    path.chmod(0o644)
    assert load(data, config=path if named else None).insecure_http


def test_data_folder_comes_from_flag_then_variable_then_file(data: Path, tmp_path: Path) -> None:
    config = tmp_path / "other.toml"
    environ = {"ROTA_DATA": "/variable"}
    assert load(data, config=config, file='data = "/file"', environ=environ).data == data
    assert load(config=config, environ=environ).data == Path("/variable")
    assert load(config=config).data == Path("/file")
    assert load(environ={"ROTA_DATA": ""}).data == Path("rota-data")


def test_file_of_the_folder_named_by_the_variable_is_read(data: Path) -> None:
    (data / "rota.toml").write_text("port = 1")
    assert load(environ={"ROTA_DATA": str(data)}).port == 1


def test_config_file_takes_the_place_of_the_one_in_the_folder(data: Path, tmp_path: Path) -> None:
    (data / "rota.toml").write_text("port = 1\nlog_json = true")
    chosen = load(data, config=tmp_path / "other.toml", file="port = 2")
    assert (chosen.port, chosen.log_json) == (2, False)


def test_file_in_the_data_folder_cannot_move_it(data: Path) -> None:
    with pytest.raises(StartError, match="data in "):
        load(data, file='data = "/elsewhere"')


def test_named_config_file_must_exist(data: Path, tmp_path: Path) -> None:
    with pytest.raises(StartError, match="does not exist"):
        load(data, config=tmp_path / "none.toml")


@pytest.mark.parametrize("file", ["port 1", "port = 1\nport = 2"])
def test_file_that_is_not_toml_is_refused(data: Path, file: str) -> None:
    with pytest.raises(StartError, match="not TOML"):
        load(data, file=file)


@pytest.mark.parametrize(
    ("arguments", "wrong", "nearest"),
    [
        ({"file": "trusted_proxys = []"}, "trusted_proxys", "trusted_proxies"),
        ({"environ": {"ROTA_TRUSTED_PROXIE": "::1"}}, "ROTA_TRUSTED_PROXIE", "ROTA_TRUSTED_PROXIES"),
        ({"environ": {"ROTA_SECRETKEY": "x"}}, "ROTA_SECRETKEY", "ROTA_SECRET_KEY"),
        ({"insecure_htp": True}, "--insecure-htp", "insecure_http"),
    ],
)
def test_unknown_name_is_refused_with_the_nearest_known(
    data: Path, arguments: dict[str, Any], wrong: str, nearest: str
) -> None:
    with pytest.raises(StartError, match=rf"{wrong} .*nearest one is {nearest}\."):
        load(data, **arguments)


def test_variables_of_others_are_left_alone(data: Path) -> None:
    names = (
        *settings.OTHER_VARIABLES,
        "ROTA_EXECUTOR_TOKEN_PREVIOUS",
        "ROTA_TEST_POSTGRES",
        "ROTATE",
        "PORT",
    )
    assert load(data, environ=dict.fromkeys(names, "x")) == load(data)


def test_variables_are_read_as_what_they_stand_for(data: Path) -> None:
    environ = {
        "ROTA_TRUSTED_PROXIES": "10.0.0.0/8, ::1",
        "ROTA_ALLOWED_HOSTS": "",
        "ROTA_INSECURE_HTTP": "true",
        "ROTA_TLS_CERT": "c.pem",
        "ROTA_TLS_KEY": "k.pem",
    }
    chosen = load(data, environ=environ)
    assert chosen.trusted_proxies == ("10.0.0.0/8", "::1")
    assert (chosen.allowed_hosts, chosen.insecure_http, chosen.tls_key) == ((), True, Path("k.pem"))


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        ({"file": 'port = "8520"'}, "port in "),
        ({"file": "tls_cert = 1"}, "tls_cert in "),
        ({"file": 'trusted_proxies = "::1"'}, "trusted_proxies in "),
        ({"environ": {"ROTA_PORT": "tcp://10.0.0.1:8520"}}, "ROTA_PORT"),
        ({"environ": {"ROTA_LOG_LEVEL": "loud"}}, "one of debug, info, warning, error"),
        ({"port": 65536}, "--port"),
        ({"sweep_interval_ms": 501}, "--sweep-interval-ms"),
        ({"max_pending": 0}, "--max-pending"),
        ({"app_name": "a b"}, "--app-name"),
        ({"app_name": "a\n"}, "--app-name"),
        ({"trusted_proxies": ["proxy"]}, "trusted_proxies"),
        ({"trusted_proxies": ["*"]}, "trusted_proxies"),
        ({"allowed_hosts": ["http://a"]}, "allowed_hosts"),
        ({"allowed_hosts": ["a:80"]}, "allowed_hosts"),
        ({"public_url": "jobs.example.org"}, "public_url"),
        ({"public_url": "https://u:p@jobs.example.org"}, "public_url"),
        ({"public_url": "https://jobs.example.org:port"}, "public_url"),
        ({"public_url": "ftp://jobs.example.org"}, "public_url"),
        ({"tls_cert": "c.pem"}, "tls_key is missing"),
        ({"tls_key": "k.pem"}, "tls_cert is missing"),
        ({"database": "mysql://a"}, "database"),
        ({"database": "sqlite://"}, "database"),
        ({"database": "sqlite:///"}, "database"),
        ({"database": "sqlite:///:memory:"}, "database"),
        ({"database": "sqlite:///a.db?mode=ro"}, "database"),
    ],
)
def test_value_that_is_not_allowed_is_refused_by_its_name(
    data: Path, arguments: dict[str, Any], place: str
) -> None:
    with pytest.raises(StartError, match=place):
        load(data, **arguments)


def test_refusal_never_shows_the_value(data: Path) -> None:
    with pytest.raises(StartError) as refused:
        load(data, environ={"ROTA_PUBLIC_URL": "https://user:hunter2@host"})
    assert "hunter2" not in refused.value.detail
    with pytest.raises(StartError) as refused:
        load(data, environ={"ROTA_LOG_LEVEL": "hunter2"})
    assert "hunter2" not in refused.value.detail


@pytest.mark.parametrize("url", ["postgresql://u:hunter2@host/db", "postgres://host/db", "PostgreSQL://host"])
def test_postgresql_is_not_available_yet(data: Path, url: str) -> None:
    with pytest.raises(StartError, match="PostgreSQL is not available yet") as refused:
        load(data, database=url)
    assert "hunter2" not in refused.value.detail


def test_database_of_an_application_can_be_shared(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert load(data, database="sqlite:///app.db").database_file == tmp_path / "app.db"
    assert load(data, database="sqlite:////srv/app.db").database_file == Path("/srv/app.db")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_loopback_needs_no_tls(data: Path, host: str) -> None:
    check_bind(load(data, host=host))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "jobs.example.org", "localhost.example.org"])
def test_bind_beyond_this_machine_needs_tls_a_proxy_or_consent(data: Path, tmp_path: Path, host: str) -> None:
    with pytest.raises(StartError, match="in the clear"):
        check_bind(load(data, host=host))
    pem = tmp_path / "a.pem"
    pem.touch()
    check_bind(load(data, host=host, tls_cert=pem, tls_key=pem))
    check_bind(load(data, host=host, trusted_proxies=["10.0.0.2"]))
    check_bind(load(data, host=host, insecure_http=True))


def test_tls_files_must_be_there(data: Path, tmp_path: Path) -> None:
    with pytest.raises(StartError, match="tls_cert names"):
        check_bind(load(data, tls_cert=tmp_path / "none.pem", tls_key=tmp_path / "none.pem"))
