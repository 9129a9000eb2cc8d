"""The secrets behind API tokens: making them, taking them apart, hashing and comparing them.

A token is ``rota_`` + key id (12 of ``[a-z0-9]``) + ``_`` + 43 base62 characters (256 bits). Only
the HMAC of the whole string is ever stored, under a pepper that derives from the deployment's
secret key.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
import string
from itertools import pairwise

from rota.errors import StartError

MAX_TOKEN_BYTES = 512
MIN_SECRET_BYTES = 32

_KEY_ID_ALPHABET = string.ascii_lowercase + string.digits
_SECRET_ALPHABET = string.ascii_letters + string.digits
_TOKEN = re.compile(r"rota_([a-z0-9]{12})_[A-Za-z0-9]{43}")


def new_token() -> tuple[str, str]:
    """A fresh ``(key_id, token)``; the token is shown once and never stored."""
    key_id = "".join(secrets.choice(_KEY_ID_ALPHABET) for _ in range(12))
    return key_id, new_secret(key_id)


def new_secret(key_id: str) -> str:
    """A fresh token under a key id that stays: what a rotation gives out."""
    secret = "".join(secrets.choice(_SECRET_ALPHABET) for _ in range(43))
    return f"rota_{key_id}_{secret}"


def key_id_of(token: str) -> str | None:
    """The key id inside a token, or None when it is malformed, not ASCII or over 512 bytes.

    Whatever gives None must be refused without hashing it.
    """
    if len(token) > MAX_TOKEN_BYTES:
        return None
    found = _TOKEN.fullmatch(token)
    return found[1] if found else None


def hkdf_sha256(secret: bytes, *, salt: bytes, info: bytes, length: int) -> bytes:
    """HKDF with SHA-256 as in RFC 5869; ``length`` is at most 8,160 bytes.

    Written here because it is ten lines over ``hmac``, and signing in must not depend on a
    compiled package; the RFC's own vectors are in the tests.
    """
    if not 0 < length <= 255 * 32:
        raise ValueError("length must be 1 to 8,160 bytes")
    key = hmac.digest(salt or bytes(32), secret, "sha256")
    block, output = b"", b""
    for counter in range(1, -(-length // 32) + 1):
        block = hmac.digest(key, block + info + bytes([counter]), "sha256")
        output += block
    return output[:length]


def derive_key(secret: bytes, label: str) -> bytes:
    """32 bytes for one purpose; keys of different labels say nothing about each other."""
    return hkdf_sha256(secret, salt=b"", info=b"rota/" + label.encode(), length=32)


def fingerprint(secret: bytes) -> str:
    """64 hex digits that tell two secret keys apart and may be stored in the database."""
    return derive_key(secret, "fingerprint").hex()


def secret_key_id(secret: bytes) -> str:
    """8 hex digits that name a secret key beside every HMAC and ciphertext made with it."""
    return derive_key(secret, "key id").hex()[:8]


class Pepper:
    """Hashes tokens under the deployment's secret key; the previous key only verifies."""

    def __init__(self, current: bytes, previous: bytes | None = None) -> None:
        self.key_id = secret_key_id(current)
        self._current = derive_key(current, "token pepper")
        self._keys = {self.key_id: self._current}
        if previous is not None:
            self._keys.setdefault(secret_key_id(previous), derive_key(previous, "token pepper"))
        self._dummy = secrets.token_bytes(32)
        self._process_key = secrets.token_bytes(32)

    def hash(self, token: str) -> bytes:
        """The 32 bytes to store for a token, together with ``key_id``."""
        return _hmac(self._current, token)

    def matches(self, token: str, stored_hash: bytes, stored_pepper_key_id: str) -> bool:
        """Whether the stored hash is this token's; the time taken does not depend on the hash."""
        key = self._keys.get(stored_pepper_key_id)
        if key is None:
            self.dummy_compare(token)
            return False
        return hmac.compare_digest(_hmac(key, token), stored_hash)

    def proof(self, token: str) -> bytes:
        """What a token that has matched is recognised by in this process, and only in it.

        A keyed BLAKE2b under a random key: as hard to invert as the HMAC, but without handing the
        interpreter over to other threads at each request.
        """
        return hashlib.blake2b(token.encode("utf-8", "surrogatepass"), key=self._process_key).digest()

    def dummy_compare(self, token: str) -> None:
        """Spend on an unknown key id the time that a known one takes."""
        hmac.compare_digest(self.hash(token), self._dummy)


def _hmac(key: bytes, token: str) -> bytes:
    return hmac.digest(key, token.encode("utf-8", "surrogatepass"), "sha256")


_HOW_TO_MAKE_ONE = (
    "Make a key with: python3 -c 'import secrets; print(secrets.token_urlsafe(32))'"
    " and keep it: tokens and sealed values depend on it."
)
_EXAMPLE_WORDS = (
    *("changeme", "changethis", "secret", "passwor", "example", "insecure", "default"),
    *("placeholder", "replaceme", "replacethis", "notsecure", "yourkey", "qwerty", "letmein"),
)


def parse_secret_key(text: str, name: str = "ROTA_SECRET_KEY") -> bytes:
    """The deployment's secret key from its text: hex, base64 (either alphabet) or plain text.

    Needs at least 32 bytes after decoding, or 32 characters of plain text. Raises ``StartError``
    for a short, well-known or patterned key; the message never shows the key.
    """
    text = text.strip()
    if not text:
        raise StartError(f"{name} is empty. {_HOW_TO_MAKE_ONE}")
    key = _decoded(text)
    if key is None:
        raise StartError(f"{name} is shorter than {MIN_SECRET_BYTES} bytes. {_HOW_TO_MAKE_ONE}")
    if _is_guessable(text.encode("utf-8", "surrogateescape")) or _is_guessable(key):
        raise StartError(f"{name} is a known example or follows a pattern. {_HOW_TO_MAKE_ONE}")
    return key


def _decoded(text: str) -> bytes | None:
    if re.fullmatch(r"[0-9a-fA-F-]+", text):
        digits = text.replace("-", "")
        if len(digits) < 2 * MIN_SECRET_BYTES:
            return None  # a UUID or 16 bytes of hex: too little, however long the text
        if len(digits) % 2 == 0:
            return bytes.fromhex(digits)
    if re.fullmatch(r"[A-Za-z0-9_+/-]{43,}={0,2}", text):
        bare = text.rstrip("=").replace("+", "-").replace("/", "_")
        try:
            return base64.urlsafe_b64decode(bare + "=" * (-len(bare) % 4))
        except binascii.Error:
            pass  # the length fits no base64: plain text
    raw = text.encode("utf-8", "surrogateescape")
    return raw if len(text) >= MIN_SECRET_BYTES else None


def _is_guessable(key: bytes) -> bool:
    letters = re.sub(rb"[^a-z]", b"", key.lower())
    if any(word.encode() in letters for word in _EXAMPLE_WORDS):
        return True
    if len(set(key)) < 10:
        return True
    if any(key[period:] == key[:-period] for period in range(1, min(64, len(key) // 2) + 1)):
        return True
    steps = [after - before for before, after in pairwise(key)]
    return max(steps.count(1), steps.count(-1)) > len(steps) // 2
