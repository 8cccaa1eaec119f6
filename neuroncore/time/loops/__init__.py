"""Compiled loops of the schedule: dependencies, spills, allocation of memory, and the timeline."""
