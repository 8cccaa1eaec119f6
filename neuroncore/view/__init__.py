"""One HTML file that shows a run: the time, source line and bytes of every instruction."""
