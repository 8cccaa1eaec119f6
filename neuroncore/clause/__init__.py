"""The words that an instruction's clause is written in: operands, rules, arithmetic, costs."""
