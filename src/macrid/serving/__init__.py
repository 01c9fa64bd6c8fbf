"""Recommendations over HTTP, and the studio: `create_app(run, settings)`."""
