"""What was issued: the program of a run, and its file."""
