"""The calls that change or delete jobs: one, or all that match."""

from __future__ import annotations

from rota.api.call import Answer, Call
from rota.api.queries import cursor_of, job_filter, position_of
from rota.domain.access import Principal
from rota.errors import FieldError, ValidationFailed
from rota.store.base import JobFilter
from rota.wire import job_answer
from rota.wire_admin import ActionAnswer, ActionFilter, ActionRequest, ChangeRequest

_CURSOR = "actions"


async def change_job(call: Call, asked: ChangeRequest) -> Answer:
    changed = await call.services.queue.change(call.principal, call.id, asked, call.actor)
    return Answer(200, job_answer(changed))


async def delete_job(call: Call, _: None) -> Answer:
    await call.services.queue.delete(call.principal, call.id, call.actor)
    return Answer(204)


async def act(call: Call, asked: ActionRequest) -> Answer:
    wanted = _filter(asked.filter, call.principal)
    if asked.filter == ActionFilter() and not asked.all:
        raise ValidationFailed.of(
            "all", "required", "must be true when the filter is empty: this is about all jobs"
        )
    outcome = await call.services.bulk.act(
        call.principal,
        asked.action,
        wanted,
        call.actor,
        call.services.judge(call.principal),
        dry_run=asked.dry_run,
        before=position_of(_CURSOR, asked.cursor),
    )
    cursor = None if outcome.next_before is None else cursor_of(_CURSOR, outcome.next_before)
    return Answer(200, ActionAnswer(outcome.matched, outcome.done, outcome.remaining, cursor))


def _filter(asked: ActionFilter, principal: Principal) -> JobFilter:
    """What GET /jobs would be narrowed to by these parameters; faults name the field inside ``filter``."""
    try:
        return job_filter(asked, principal)
    except ValidationFailed as fault:
        errors = [FieldError(f"filter.{field}", code, message) for field, code, message in fault.errors]
        raise type(fault)(f"filter.{fault.detail}", errors=errors) from None
