"""The values the whole platform shares: request, rules between its fields, root folder, faults."""
