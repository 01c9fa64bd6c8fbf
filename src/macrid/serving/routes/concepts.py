"""Dimensions of concepts, and new names for both."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import Response

from macrid.serving.problems import answers
from macrid.serving.routes.common import Number, Serves, Serving, Strict, reply
from macrid.serving.schemas import about, requests

router = APIRouter(prefix="/v1", responses=answers(), route_class=Strict)


@router.get(
    "/concepts/{concept}/dimensions", response_model=about.Dimensions, responses=answers(404, 409), tags=["about"]
)
async def dimensions(concept: Number, hosted: Serves, service: Serving) -> Response:
    """All dimensions of a concept, strongest effect or best evidence first."""
    hosted.card.check(concept)
    return reply({"concept": concept, "dimensions": await service.slowly(hosted.card.dimensions, concept)})


@router.patch("/concepts/{concept}", response_model=about.Concept, responses=answers(404, 409), tags=["names"])
async def rename_concept(concept: Number, body: requests.ConceptRename, hosted: Serves, service: Serving) -> Response:
    """Rename a concept; the name is saved in the run."""
    service.check_may_edit()
    hosted.card.check(concept)
    await service.slowly(hosted.rename, lambda names: names.renamed(concept, body.name))
    return reply(await service.slowly(hosted.card.concept, hosted.names.concepts[concept]))


@router.patch(
    "/concepts/{concept}/dimensions/{dimension}", response_model=about.Dimension, responses=answers(404, 409),
    tags=["names"],
)  # fmt: skip
async def rename_dimension(
    concept: Number, dimension: Number, body: requests.DimensionRename, hosted: Serves, service: Serving
) -> Response:
    """Rename a dimension or its ends; the names are saved in the run."""
    service.check_may_edit()
    hosted.card.check(concept, dimension)
    texts = body.model_dump(exclude_none=True)
    await service.slowly(hosted.rename, lambda names: names.renamed_dimension(concept, dimension, **texts))
    return reply(await service.slowly(hosted.card.dimension, hosted.names.dimension(concept, dimension)))
