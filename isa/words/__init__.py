"""Building blocks of the clauses of one family: operands, rules and costs."""
