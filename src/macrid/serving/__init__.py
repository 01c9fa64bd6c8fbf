"""Recommendations and the studio over HTTP: `create_app(run, settings)`."""
