"""The service that anybody would write first: one request, one call of `recommend`.

python -m benchmarks.plain_service RUN PORT
"""

from __future__ import annotations

import sys
from threading import Lock
from typing import Any

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

import macrid


class Asked(BaseModel):
    history: list[str]
    n: int = 10


def plain_app(run: str) -> FastAPI:
    app, model, one_at_a_time = FastAPI(), macrid.load(run, "cpu"), Lock()

    @app.post("/v1/recommend")
    def recommend(asked: Asked) -> dict[str, Any]:
        with one_at_a_time:
            found = model.recommend(asked.history, asked.n)
        return {"items": [item.as_json() for item in found]}

    @app.get("/healthz")
    def healthz() -> dict[str, str]:
        return {"status": "ok"}

    return app


if __name__ == "__main__":
    uvicorn.run(plain_app(sys.argv[1]), port=int(sys.argv[2]), log_level="warning", access_log=False)
