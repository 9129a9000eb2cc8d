"""Tokens, their hashes and the deployment's secret key."""

from __future__ import annotations

import base64
import hmac
import re
import secrets

import pytest

from rota.auth.tokens import (
    Pepper,
    derive_key,
    fingerprint,
    hkdf_sha256,
    key_id_of,
    new_token,
    parse_secret_key,
    secret_key_id,
)
from rota.errors import StartError

OLD, NEW, OTHER = (secrets.token_bytes(32) for _ in range(3))
NEW_HEX = "5f2c9a7e41b80d63f19e24c7a85b306dd4e17f9023c6ab584e71f0d29c3b86a5"


def test_new_token_has_the_documented_shape_and_is_never_the_same() -> None:
    made = [new_token() for _ in range(50)]
    assert len({token for _, token in made}) == 50
    assert len({key_id for key_id, _ in made}) == 50
    for key_id, token in made:
        assert re.fullmatch(r"rota_[a-z0-9]{12}_[A-Za-z0-9]{43}", token)
        assert key_id_of(token) == key_id


GOOD = "rota_abc123def456_" + "A" * 43


@pytest.mark.parametrize(
    "token",
    [
        *(
            "",
            "x",
            GOOD[:-1],
            GOOD + "A",
            GOOD + "\n",
            " " + GOOD,
            GOOD.replace("rota_", "Rota_"),
            GOOD[:-1] + "é",
        ),
        *(
            GOOD.replace("abc", "ABC"),
            GOOD[:-1] + "\ud800",
            GOOD[:-1] + "\x00",
            GOOD[:-1] + "\uff21",
            "A" * 600,
        ),
        *(GOOD.replace("123", "١٢٣"), GOOD[:-1] + "-", GOOD + "A" * 500),
    ],
)
def test_malformed_token_has_no_key_id(token: str) -> None:
    assert key_id_of(token) is None


# RFC 5869, appendix A.1 to A.3.
@pytest.mark.parametrize(
    ("secret", "salt", "info", "output"),
    [
        (
            b"\x0b" * 22,
            bytes(range(13)),
            bytes(range(0xF0, 0xFA)),
            "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865",
        ),
        (
            bytes(range(0x50)),
            bytes(range(0x60, 0xB0)),
            bytes(range(0xB0, 0x100)),
            (
                "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c59045a99cac7827271cb41c65e590e09"
                "da3275600c2f09b8367793a9aca3db71cc30c58179ec3e87c14c01d5c1f3434f1d87"
            ),
        ),
        (
            b"\x0b" * 22,
            b"",
            b"",
            "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8",
        ),
    ],
)
def test_hkdf_gives_the_vectors_of_the_rfc(secret: bytes, salt: bytes, info: bytes, output: str) -> None:
    assert hkdf_sha256(secret, salt=salt, info=info, length=len(output) // 2).hex() == output


@pytest.mark.parametrize("length", [0, -1, 8_161])
def test_hkdf_refuses_an_impossible_length(length: int) -> None:
    with pytest.raises(ValueError, match="length"):
        hkdf_sha256(OLD, salt=b"", info=b"", length=length)


def test_keys_differ_by_label_and_by_secret() -> None:
    assert len({derive_key(key, label) for key in (OLD, NEW) for label in ("a", "b")}) == 4
    assert derive_key(OLD, "a") == derive_key(OLD, "a")


def test_fingerprint_and_key_id_name_the_secret_without_showing_it() -> None:
    assert fingerprint(OLD) != fingerprint(NEW)
    assert secret_key_id(OLD) != secret_key_id(NEW)
    assert re.fullmatch("[0-9a-f]{64}", fingerprint(OLD))
    assert re.fullmatch("[0-9a-f]{8}", secret_key_id(OLD))
    assert OLD.hex() not in fingerprint(OLD)
    assert not fingerprint(OLD).startswith(secret_key_id(OLD))


def test_stored_hash_matches_only_its_own_token() -> None:
    pepper = Pepper(NEW)
    (_, token), (_, other) = new_token(), new_token()
    stored = pepper.hash(token)
    assert len(stored) == 32
    assert pepper.matches(token, stored, pepper.key_id)
    assert not pepper.matches(other, stored, pepper.key_id)


@pytest.mark.parametrize("position", [0, 5, 16, 17, 18, 60])
def test_hash_covers_every_part_of_the_token(position: int) -> None:
    pepper = Pepper(NEW)
    changed = GOOD[:position] + "z" + GOOD[position + 1 :]
    assert not pepper.matches(changed, pepper.hash(GOOD), pepper.key_id)


def test_hash_needs_the_deployments_secret() -> None:
    assert Pepper(OLD).hash(GOOD) != Pepper(NEW).hash(GOOD)


def test_token_stored_under_the_previous_key_still_verifies() -> None:
    before, after = Pepper(OLD), Pepper(NEW, OLD)
    stored = before.hash(GOOD)
    assert after.matches(GOOD, stored, before.key_id)
    assert after.key_id == Pepper(NEW).key_id != before.key_id
    assert after.hash(GOOD) == Pepper(NEW).hash(GOOD)


def test_token_stored_under_a_key_that_is_gone_never_verifies() -> None:
    stored = Pepper(OTHER).hash(GOOD)
    assert not Pepper(NEW, OLD).matches(GOOD, stored, secret_key_id(OTHER))


def test_hash_of_one_key_is_not_taken_under_the_id_of_another() -> None:
    pepper = Pepper(NEW, OLD)
    assert not pepper.matches(GOOD, Pepper(OLD).hash(GOOD), pepper.key_id)


@pytest.mark.parametrize("token", ["", "é", "\ud800", "\x00", "x" * 512])
def test_odd_tokens_are_compared_without_an_error(token: str) -> None:
    pepper = Pepper(NEW)
    assert not pepper.matches(token, pepper.hash(GOOD), pepper.key_id)
    pepper.dummy_compare(token)


def test_every_path_compares_once_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    pepper = Pepper(NEW)
    stored = pepper.hash(GOOD)
    compared: list[tuple[int, int]] = []

    def spy(a: bytes, b: bytes) -> bool:
        compared.append((len(a), len(b)))
        return a == b

    monkeypatch.setattr(hmac, "compare_digest", spy)
    pepper.matches(GOOD, stored, pepper.key_id)
    pepper.matches(GOOD, stored, "gone")
    pepper.dummy_compare(GOOD)
    assert compared == [(32, 32)] * 3


def test_secret_key_is_read_from_hex_base64_and_plain_text() -> None:
    assert parse_secret_key(NEW.hex()) == NEW
    assert parse_secret_key(NEW.hex().upper() + "\n") == NEW
    assert parse_secret_key(base64.urlsafe_b64encode(NEW).decode()) == NEW
    assert parse_secret_key(base64.urlsafe_b64encode(NEW).decode().rstrip("=")) == NEW
    assert parse_secret_key(base64.b64encode(NEW).decode()) == NEW
    text = "sieben Zwerge, üben nachts um 3 Geige"
    assert parse_secret_key(f"  {text} ") == text.encode()


def test_generated_keys_are_always_accepted() -> None:
    for _ in range(300):
        key = secrets.token_bytes(32)
        assert parse_secret_key(key.hex()) == key
        assert parse_secret_key(base64.urlsafe_b64encode(key).decode()) == key


@pytest.mark.parametrize(
    "text",
    [
        *("", "   ", "short", NEW_HEX[:32], "mT3x-Vq8_ZkP0rLw5sYd2A", NEW_HEX[:62], "a-b" * 10),
        *("018f3c1e-7b2a-7c3d-9e4f-0123456789ab", "ü" * 16),
    ],
)
def test_short_secret_key_is_refused(text: str) -> None:
    with pytest.raises(StartError, match="token_urlsafe"):
        parse_secret_key(text)


@pytest.mark.parametrize(
    "text",
    [
        *("changeme" * 5, "Change-Me-please-I-am-a-weak-key-0001", "a" * 43, "0" * 64, "secret" * 8),
        *("correct-horse" * 4, "abcdefghijklmnopqrstuvwxyz0123456789", "0123456789abcdef" * 4),
        *(
            bytes(range(32)).hex(),
            base64.b64encode(bytes(range(32))).decode(),
            bytes(range(31, -1, -1)).hex(),
        ),
        *("your-key-goes-here-at-least-32-characters", "this-is-an-example-key-for-the-docs-only"),
        *("EXAMPLE_mT3x-Vq8_ZkP0rLw5sYd2AmT3xVq8ZkP0r", base64.b64encode(b"changeme" * 4 + b"!").decode()),
        *("password12345678901234567890qwertz", "my_super_secret_key_for_development_01"),
    ],
)
def test_known_or_patterned_secret_key_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(StartError, match="token_urlsafe") as refusal:
        parse_secret_key(text, "ROTA_SECRET_KEY_PREVIOUS")
    assert refusal.value.detail.startswith("ROTA_SECRET_KEY_PREVIOUS ")
    assert text not in refusal.value.detail


def test_hash_is_a_plain_hmac_sha256_under_the_derived_pepper() -> None:
    assert Pepper(NEW).hash(GOOD) == hmac.digest(derive_key(NEW, "token pepper"), GOOD.encode(), "sha256")
