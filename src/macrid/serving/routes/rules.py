"""Standing rules, and what rules can be about."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import Response

from macrid.control.rules import Rules
from macrid.serving.problems import answers
from macrid.serving.recommending import check_rule_limits
from macrid.serving.routes.common import Serves, Serving, Strict, reply
from macrid.serving.schemas import rules

router = APIRouter(prefix="/v1", responses=answers(), route_class=Strict)


@router.get("/rules", response_model=rules.StandingRules, tags=["rules"])
async def standing_rules(hosted: Serves, service: Serving) -> Response:
    """The rules of every answer, and how many items they leave."""
    await service.slowly(service.standing.refresh, hosted)
    return reply(await service.slowly(service.standing.as_json, hosted))


@router.put("/rules", response_model=rules.StandingRules, responses=answers(409), tags=["rules"])
async def replace_rules(body: rules.Rules, hosted: Serves, service: Serving) -> Response:
    """Replace the rules of every answer; they are saved, and all processes follow. An empty object removes them."""
    service.check_may_edit()
    check_rule_limits(hosted, body)
    await service.slowly(service.standing.replace, Rules.read(body.model_dump(exclude_none=True)), hosted)
    return reply(await service.slowly(service.standing.as_json, hosted))


@router.get("/attributes", response_model=rules.ItemAttributes, tags=["rules"])
async def attributes(hosted: Serves, service: Serving) -> Response:
    """What rules can be about: attributes with their kinds, ranges and most frequent values."""
    return reply({"attributes": await service.slowly(lambda: hosted.attributes)})
