"""Print the schemas of the service as an OpenAPI document, for the studio's generated types."""

import json
import tempfile
from pathlib import Path
from typing import Any

import scipy.sparse as sp

import macrid
from macrid.serving.app import create_app

WORDS = ("title", "description", "examples")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        macrid.Popularity().fit(sp.csr_array([[1, 0], [1, 1]])).save(run)
        app = create_app(run)
        document = app.openapi()
        app.state.service.close()
    print(json.dumps(document | {"paths": {}, "components": {"schemas": shapes(document["components"]["schemas"])}}))


def shapes(schemas: dict[str, Any]) -> dict[str, Any]:
    """Without text for readers."""
    return {name: _bare(schema) for name, schema in schemas.items()}


def _bare(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_bare(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    bare = {key: _bare(part) for key, part in schema.items() if key not in (*WORDS, "properties")}
    if "properties" in schema:
        bare["properties"] = {name: _bare(part) for name, part in schema["properties"].items()}
    return bare


if __name__ == "__main__":
    main()
