"""The part of the route table about rights and what was done with them: tokens and the audit."""

from __future__ import annotations

from typing import Final

from rota.api import audit, tokens
from rota.api.route import Route, one_of
from rota.domain.access import Scope
from rota.wire import NewTokenAnswer, NoFields, Page, RotateRequest, TokenAnswer, TokenRequest

_TOKENS: Final = one_of(Scope.TOKENS_MANAGE)

TOKENS: Final = (
    Route(
        method="POST",
        path="/tokens",
        handler=tokens.create_token,
        summary="Make a token; its secret is in this answer only",
        tag="tokens",
        needs=_TOKENS,
        body=TokenRequest,
        answers={201: NewTokenAnswer},
    ),
    Route(
        method="GET",
        path="/tokens",
        handler=tokens.list_tokens,
        summary="List the tokens within one's own ranges, newest first, without secrets",
        tag="tokens",
        needs=_TOKENS,
        answers={200: Page[TokenAnswer]},
    ),
    Route(
        method="POST",
        path="/tokens/{key_id}/rotate",
        handler=tokens.rotate_token,
        summary="Give a token a new secret; it keeps name, id and rights",
        tag="tokens",
        needs=_TOKENS,
        body=RotateRequest,
        answers={200: NewTokenAnswer},
    ),
    Route(
        method="POST",
        path="/tokens/{key_id}/revoke",
        handler=tokens.revoke_token,
        summary="End a token for good and give back the jobs it holds",
        tag="tokens",
        needs=_TOKENS,
        body=NoFields,
        answers={200: TokenAnswer},
    ),
    Route(
        method="POST",
        path="/tokens/{key_id}/resume",
        handler=tokens.resume_token,
        summary="Let a token be used again that a restore has suspended",
        tag="tokens",
        needs=_TOKENS,
        body=NoFields,
        answers={200: TokenAnswer},
    ),
)

AUDIT: Final = (
    Route(
        method="GET",
        path="/audit",
        handler=audit.list_audit,
        summary="List what was changed and what was refused, newest first",
        tag="audit",
        needs=one_of(Scope.AUDIT_READ),
        query=audit.AuditQuery,
        answers={200: Page[audit.AuditAnswer]},
    ),
)

ACCESS: Final = TOKENS + AUDIT
