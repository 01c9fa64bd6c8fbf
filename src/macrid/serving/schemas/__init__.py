"""Requests, with examples, and responses."""
