"""Recommend, steer, traverse and explain with a trained model."""
