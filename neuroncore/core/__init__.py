"""How an instruction happens: checked, executed and noted, on one core or two."""
