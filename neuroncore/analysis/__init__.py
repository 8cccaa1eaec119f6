"""What bounds a run and what would help: its schedule beside schedules of what might be."""
