"""Rollouts: one Harbor trial each, and what happened in it turned into evidence."""
