"""Segments: what sets some items apart, and who likes them."""

from __future__ import annotations

from typing import Any

import numpy as np
from fastapi import APIRouter
from fastapi.responses import Response

from macrid.concepts.names import label
from macrid.data.ids import Id
from macrid.errors import RequestError
from macrid.report.profile import ValueShare
from macrid.serving.hosted import MOST_ON_MAP, Hosted
from macrid.serving.problems import answers
from macrid.serving.routes.common import Serves, Serving, Strict, listed, reply
from macrid.serving.schemas import segments

EXAMPLES = 12
MOST_COUNTED = 20  # items of a segment that a user has

router = APIRouter(prefix="/v1", responses=answers(), route_class=Strict)


@router.post("/segments/profile", response_model=segments.SegmentProfile, tags=["items"])
async def segment_profile(body: segments.SegmentRequest, hosted: Serves, service: Serving) -> Response:
    """What sets some items apart from all others, and how many known users have them."""
    if len(body.ids) > MOST_ON_MAP:
        raise RequestError(f"ids has {len(body.ids):,} items; the limit is {MOST_ON_MAP:,}")
    return reply(await service.slowly(_profile, hosted, body.ids))


def _profile(hosted: Hosted, ids: list[Id]) -> dict[str, Any]:
    items, unknown = hosted.positions(ids)
    profile = hosted.profiler.of(items)
    popular = items[np.argsort(-hosted.model.popularity[items], kind="stable")[:EXAMPLES]]
    return {
        "items": len(items),
        "unknown": [str(value) for value in unknown],
        "examples": [listed(hosted, int(at)) for at in popular],
        "more": [_value(hosted, share) for share in profile.more],
        "less": [_value(hosted, share) for share in profile.less],
        "numbers": [shift._asdict() for shift in profile.numbers],
        "customers": _customers(hosted, items),
    }


def _value(hosted: Hosted, share: ValueShare) -> dict[str, Any]:
    content = share._asdict()
    text = content.pop("text")
    return {**content, "label": text if share.concept is None else label(hosted.names.concepts[share.concept])}


def _customers(hosted: Hosted, items: np.ndarray) -> dict[str, Any]:
    have, lengths = hosted.users.count_among(items)
    by_count = np.bincount(np.minimum(have, MOST_COUNTED), minlength=MOST_COUNTED + 1)
    most = min(MOST_COUNTED, len(items))
    return {
        "total": len(have),
        "at_least": by_count[::-1].cumsum()[::-1][1 : most + 1].tolist(),
        "a_tenth": int(((have > 0) & (10 * have >= lengths)).sum()),
    }
