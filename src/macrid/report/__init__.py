"""Everything measured about a run: inspection and controllability."""
