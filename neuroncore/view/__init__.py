"""One HTML file that shows a run: when everything happened, from which line, on which bytes."""
