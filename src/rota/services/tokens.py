"""Tokens: handing out, rotating and revoking rights. Nobody grants what they lack."""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from typing import Any, Final

from rota.auth.authenticate import Authenticator
from rota.auth.tokens import Pepper, new_secret, new_token
from rota.clock import Clock
from rota.domain.access import PRESETS, RANGES, UNKNOWN_KEY_ID, Actor, Grant, Preset, Principal, Range, Scope
from rota.domain.job import PRIORITY_LABELS
from rota.domain.names import NAME
from rota.errors import FieldError, Forbidden, NotFound, ValidationFailed
from rota.services.fields import instant_of, parse_priority, require_label, within
from rota.store.base import Store, TokenJudge, TokenRecord
from rota.wire import NewTokenAnswer, TokenAnswer, TokenRequest, instant, instant_or_none

MAX_RATE: Final = 1_000_000
"""Calls a minute."""
MAX_GRACE_SECONDS: Final = 86_400
MAX_RANGE: Final = 1_000
"""Names in one range."""

_RANGE_NAME: Final = re.compile(r"[!-~](?:[ -~]{0,253}[!-~])?")
"""Names of things that have no rule of their own yet: printable ASCII, no space at the ends."""


class Tokens:
    """The verbs of those who manage tokens; every one needs the scope tokens:manage."""

    def __init__(self, store: Store, pepper: Pepper, clock: Clock, authenticator: Authenticator) -> None:
        self._store = store
        self._pepper = pepper
        self._clock = clock
        self._authenticator = authenticator

    async def create(self, principal: Principal, asked: TokenRequest, actor: Actor) -> NewTokenAnswer:
        """Make a token; the answer alone holds its secret.

        Raises ValidationFailed, NameTaken, and Forbidden, one entry a field, for what the principal
        lacks itself. A ceiling that is not asked for is the preset's, at most the principal's own; a rate
        limit or end that is not asked for is the principal's own.
        """
        expires_at, rate = principal.expires_at, principal.rate_limit_per_minute
        if asked.expires_at is not None:
            expires_at = instant_of(asked.expires_at, "expires_at")
            if expires_at <= self._clock.now():
                raise ValidationFailed.of("expires_at", "past", "must lie in the future")
        require_label(asked.name, "name")
        if asked.rate_limit_per_minute is not None:
            rate = asked.rate_limit_per_minute
            within(rate, 1, MAX_RATE, "rate_limit_per_minute")
        grant = _grant(principal, asked)
        _refuse_beyond(principal.missing_for(grant, rate, expires_at))
        key_id, token = new_token()
        record = TokenRecord(
            id=new_id(),
            key_id=key_id,
            name=asked.name,
            hash=self._pepper.hash(token),
            pepper_key_id=self._pepper.key_id,
            grant=grant,
            rate_limit_per_minute=rate,
            expires_at=expires_at,
            created_by=principal.id,
        )
        stored = await self._store.add_token(record, actor)
        self._authenticator.learn(stored)
        return _answer_with(stored, token)

    async def list(self, principal: Principal) -> list[TokenAnswer]:
        """The tokens within the principal's ranges, newest first, revoked and expired ones too."""
        own = principal.grant
        return [
            _answer(record)
            for record in await self._store.reader.tokens()
            if not own.narrower_than(record.grant)
        ]

    async def rotate(
        self, principal: Principal, key_id: str, grace_seconds: float, actor: Actor
    ) -> NewTokenAnswer:
        """Give a token a new secret; id, name and key id stay. The old one works for 0–86,400 s of grace.

        Raises ValidationFailed, NotFound, also for a token out of range, Conflict for a revoked one, and
        Forbidden unless the principal holds every scope and priority of the token and ends no earlier.
        """
        within(grace_seconds, 0, MAX_GRACE_SECONDS, "grace_seconds")
        token = new_secret(key_id)
        stored = await self._store.rotate_token(
            key_id, self._pepper.hash(token), self._pepper.key_id, grace_seconds, actor, _may_wield(principal)
        )
        self._authenticator.learn(stored)
        return _answer_with(stored, token)

    async def revoke(self, principal: Principal, key_id: str, actor: Actor) -> TokenAnswer:
        """End a token for good and give the jobs back that it holds, uncounted; repeating changes nothing.

        Raises NotFound, also for a token out of range, and Forbidden unless the principal holds every
        scope and priority of the token.
        """
        stored = await self._store.revoke_token(key_id, actor, _may_end(principal))
        self._authenticator.learn(stored)
        return _answer(stored)

    async def resume(self, principal: Principal, key_id: str, actor: Actor) -> TokenAnswer:
        """Let a token be used again that a restore has suspended; repeating changes nothing.

        Raises NotFound, Conflict for a revoked token, and Forbidden unless the principal holds every scope,
        range and priority of the token.
        """
        stored = await self._store.resume_token(key_id, actor, _may_wield(principal))
        self._authenticator.learn(stored)
        return _answer(stored)


def new_id() -> str:
    """An immutable id for a token: the producer and owner of jobs."""
    return f"tok_{secrets.token_hex(12)}"


# --- rights ---------------------------------------------------------------------------------------


def _may_wield(principal: Principal) -> TokenJudge:
    """Lets the principal have a token's secret: it must do nothing more with it, nor for longer.

    Asked about the stored record inside the transaction that changes it, like the next.
    """

    def judge(stored: TokenRecord) -> None:
        _require_in_range(principal, stored)
        _refuse_beyond(principal.missing_for(stored.grant, stored.rate_limit_per_minute, stored.expires_at))

    return judge


def _may_end(principal: Principal) -> TokenJudge:
    def judge(stored: TokenRecord) -> None:
        _require_in_range(principal, stored)
        _refuse_beyond(principal.grant.missing_for(stored.grant))

    return judge


def _require_in_range(principal: Principal, stored: TokenRecord) -> None:
    if principal.grant.narrower_than(stored.grant):
        raise NotFound(UNKNOWN_KEY_ID)


def _refuse_beyond(missing: Sequence[FieldError]) -> None:
    if missing:
        fields = ", ".join(each.field for each in missing)
        raise Forbidden(f"the token would have or has more than you hold yourself: {fields}", errors=missing)


def _grant(principal: Principal, asked: TokenRequest) -> Grant:
    preset = _preset(asked)
    if asked.max_priority is None:
        ceiling = min(preset.max_priority, principal.grant.max_priority)
    else:
        ceiling = parse_priority(asked.max_priority, "max_priority")
    ranges = {name: _range(name, getattr(asked, name)) for name in RANGES}
    return Grant(scopes=preset.scopes, max_priority=ceiling, open_api_only=preset.open_api_only, **ranges)


def _preset(asked: TokenRequest) -> Preset:
    """The preset that is asked for, or the scopes one by one in its shape."""
    if (asked.preset is None) == (asked.scopes is None):
        raise ValidationFailed.of("preset", "exclusive", "give either preset or scopes")
    if asked.preset is not None:
        preset = PRESETS.get(asked.preset)
        if preset is None:
            raise ValidationFailed.of("preset", "unknown-preset", f"must be one of {', '.join(PRESETS)}")
        return preset
    assert asked.scopes is not None
    try:
        scopes = frozenset(Scope(name) for name in asked.scopes)
    except ValueError:
        raise ValidationFailed.of(
            "scopes", "unknown-scope", f"must be among {', '.join(sorted(Scope))}"
        ) from None
    if not scopes:
        raise ValidationFailed.of("scopes", "empty", "must name at least one scope")
    return Preset(scopes)


def _range(field: str, names: list[str] | None) -> Range:
    if names is None:
        return None
    if not 1 <= len(names) <= MAX_RANGE:
        raise ValidationFailed.of(
            field, "out-of-range", f"must hold 1 to {MAX_RANGE:,} names; leave it out to allow all"
        )
    pattern = NAME if field in ("types", "queues") else _RANGE_NAME
    if not all(pattern.fullmatch(name) for name in names):
        raise ValidationFailed.of(field, "not-a-name", "holds something that cannot be a name of its kind")
    return frozenset(names)


# --- answers --------------------------------------------------------------------------------------


def _answer(record: TokenRecord) -> TokenAnswer:
    return TokenAnswer(**_fields(record))


def _answer_with(record: TokenRecord, token: str) -> NewTokenAnswer:
    return NewTokenAnswer(token=token, **_fields(record))


def _fields(record: TokenRecord) -> dict[str, Any]:
    grant = record.grant
    ranges = {name: getattr(grant, name) for name in RANGES}
    return {
        "key_id": record.key_id,
        "name": record.name,
        "scopes": sorted(grant.scopes),
        "max_priority": PRIORITY_LABELS[grant.max_priority],
        **{name: None if names is None else sorted(names) for name, names in ranges.items()},
        "open_api_only": grant.open_api_only,
        "rate_limit_per_minute": record.rate_limit_per_minute,
        "expires_at": instant_or_none(record.expires_at),
        "revoked_at": instant_or_none(record.revoked_at),
        "suspended_at": instant_or_none(record.suspended_at),
        "last_used_at": instant_or_none(record.last_used_at),
        "created_at": instant(record.created_at),
        "created_by": record.created_by,
    }
