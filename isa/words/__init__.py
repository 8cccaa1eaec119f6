"""Building blocks of one family of clauses: its operands, rules and costs."""
