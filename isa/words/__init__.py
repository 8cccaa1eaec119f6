"""Words that one family of clauses has for itself: its operands, rules and costs."""
