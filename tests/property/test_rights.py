"""No sequence of calls raises effective rights: what one token can lead to is never more than it is."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Coroutine
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from rota.auth.authenticate import Authenticator
from rota.clock import FakeClock
from rota.domain.access import PRESETS, RANGES, Grant, Principal, Scope
from rota.domain.job import PRIORITIES
from rota.errors import Conflict, Forbidden, NotFound, Unauthenticated
from rota.services.tokens import Tokens
from rota.store.sqlite.store import SqliteStore
from rota.wire import TokenRequest, instant
from tests.credentials import ACTOR, PEPPER, add_token

T = TypeVar("T")

NAMES = ("a", "b", "c")
SCOPES = st.frozensets(st.sampled_from(Scope), min_size=1)
RANGE = st.none() | st.lists(st.sampled_from(NAMES), min_size=1, unique=True)
RANGE_SET = RANGE.map(lambda names: None if names is None else frozenset(names))
GRANTS = st.builds(
    Grant,
    scopes=SCOPES | st.just(frozenset(Scope)),
    max_priority=st.sampled_from(list(PRIORITIES.values())),
    open_api_only=st.booleans(),
    **dict.fromkeys(RANGES, RANGE_SET),
)
RATES = st.none() | st.integers(1, 5)
SECONDS = st.none() | st.sampled_from([1, 45, 200])
WISHES = st.fixed_dictionaries(
    {},
    optional={
        "rate_limit_per_minute": RATES,
        "seconds": SECONDS,
        "max_priority": st.sampled_from(list(PRIORITIES)),
        **dict.fromkeys(RANGES, RANGE),
    },
)


def powers(grant: Grant) -> set[tuple[str, str]]:
    """A grant as a plain set of single powers, worked out apart from the code under test."""
    found = {("scope", str(scope)) for scope in grant.scopes}
    found |= {("priority", label) for label, number in PRIORITIES.items() if number <= grant.max_priority}
    for name in RANGES:
        limited_to = getattr(grant, name)
        everything = {*NAMES, "anything else"}
        found |= {(name, each) for each in (everything if limited_to is None else limited_to)}
    return found if grant.open_api_only else found | {("beyond the open api", "")}


class Escalation(RuleBasedStateMachine):
    """An attacker with one token calls create, rotate and revoke with every secret that it comes to hold."""

    held = Bundle("held")
    key_ids = Bundle("key_ids")

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = tempfile.TemporaryDirectory()
        self.clock = FakeClock()
        self.store = self.run(SqliteStore.open(Path(self.folder.name) / "rota.db", self.clock))
        self.authenticator = Authenticator(self.store, PEPPER, self.clock)
        self.tokens = Tokens(self.store, PEPPER, self.clock, self.authenticator)
        self.secrets: list[bytes] = []
        self.ends: float = inf
        self.rate: float = inf
        self.others: list[tuple[bytes, set[tuple[str, str]]]] = []
        self.made = 0

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(call)

    def teardown(self) -> None:
        self.run(self.store.close())
        self.runner.close()
        self.folder.cleanup()

    def enter(self, header: bytes) -> Principal | None:
        with suppress(Unauthenticated):
            return self.run(self.authenticator.look_up(header, "192.0.2.1"))
        return None

    def keep(self, token: str) -> bytes:
        header = f"Bearer {token}".encode()
        self.secrets.append(header)
        return header

    @initialize(target=held, own=GRANTS, rate=RATES, seconds=SECONDS)
    def attacker(self, own: Grant, rate: int | None, seconds: float | None) -> bytes:
        self.own = powers(own)
        ends = None if seconds is None else self.clock.now() + round(seconds * 1000)
        self.ends, self.rate = ends or inf, rate or inf
        _, header = self.run(
            add_token(self.store, "attacker", own, rate_limit_per_minute=rate, expires_at=ends)
        )
        self.secrets.append(header)
        return header

    @initialize(target=key_ids, rights=GRANTS, rate=RATES)
    def somebody_else(self, rights: Grant, rate: int | None) -> str:
        record, header = self.run(add_token(self.store, "somebody-else", rights, rate_limit_per_minute=rate))
        self.others.append((header, powers(rights)))
        return record.key_id

    @initialize(target=key_ids, preset=st.sampled_from(list(PRESETS)))
    def somebody_with_a_preset(self, preset: str) -> str:
        rights = Grant(scopes=PRESETS[preset].scopes, max_priority=PRESETS[preset].max_priority)
        record, header = self.run(add_token(self.store, "preset", rights))
        self.others.append((header, powers(rights)))
        return record.key_id

    @rule(target=held, header=held, scopes=SCOPES, inherited=st.booleans(), wishes=WISHES)
    def create(
        self, header: bytes, scopes: frozenset[Scope], inherited: bool, wishes: dict[str, Any]
    ) -> bytes:
        who = self.enter(header)
        if who is None:
            return header
        if inherited:
            scopes &= who.grant.scopes
            ranges = {name: getattr(who.grant, name) for name in RANGES}
            wishes = {name: None if each is None else sorted(each) for name, each in ranges.items()} | wishes
        asked = self.request(scopes=sorted(scopes or {Scope.JOBS_READ}), **wishes)
        return self.created(who, asked, header)

    @rule(target=held, header=held, preset=st.sampled_from(list(PRESETS)), wishes=WISHES)
    def create_from_preset(self, header: bytes, preset: str, wishes: dict[str, Any]) -> bytes:
        who = self.enter(header)
        if who is None:
            return header
        return self.created(who, self.request(preset=preset, **wishes), header)

    def request(self, seconds: float | None = None, **wishes: Any) -> TokenRequest:
        self.made += 1
        ends = None if seconds is None else instant(self.clock.now() + round(seconds * 1000))
        return TokenRequest(name=f"made-{self.made}", expires_at=ends, **wishes)

    def created(self, who: Principal, asked: TokenRequest, instead: bytes) -> bytes:
        with suppress(Forbidden):
            return self.keep(self.run(self.tokens.create(who, asked, ACTOR)).token)
        return instead

    @rule(target=held, header=held, key_id=key_ids, grace=st.sampled_from([0, 60]))
    def rotate_anothers(self, header: bytes, key_id: str, grace: int) -> bytes:
        return self.rotated(header, key_id, grace)

    @rule(target=held, header=held, mine=held, grace=st.sampled_from([0, 60]))
    def rotate_own(self, header: bytes, mine: bytes, grace: int) -> bytes:
        return self.rotated(header, mine.decode()[12:24], grace)

    def rotated(self, header: bytes, key_id: str, grace: int) -> bytes:
        who = self.enter(header)
        if who is not None:
            with suppress(Forbidden, NotFound, Conflict):
                return self.keep(self.run(self.tokens.rotate(who, key_id, grace, ACTOR)).token)
        return header

    @rule(header=held, key_id=key_ids)
    def revoke_anothers(self, header: bytes, key_id: str) -> None:
        self.revoked(header, key_id)

    @rule(header=held, mine=held)
    def revoke_own(self, header: bytes, mine: bytes) -> None:
        self.revoked(header, mine.decode()[12:24])

    def revoked(self, header: bytes, key_id: str) -> None:
        who = self.enter(header)
        if who is not None:
            with suppress(Forbidden, NotFound):
                self.run(self.tokens.revoke(who, key_id, ACTOR))

    @rule(seconds=st.sampled_from([0.5, 30, 61]))
    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @invariant()
    def nothing_held_can_do_more_than_the_first_token(self) -> None:
        for header in self.secrets:
            who = self.enter(header)
            if who is not None:
                assert powers(who.grant) <= self.own
                assert (who.rate_limit_per_minute or inf) <= self.rate
                assert self.clock.now() < self.ends

    @invariant()
    def tokens_with_more_rights_stay_valid(self) -> None:
        for header, rights in self.others:
            assert rights <= self.own or self.enter(header) is not None


TestEscalation = Escalation.TestCase
TestEscalation.settings = settings(
    max_examples=40,
    stateful_step_count=15,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
