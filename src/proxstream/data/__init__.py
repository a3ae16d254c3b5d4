"""Rows, labels and what is computed from both: row blocks, label encoding, linear maps, metrics."""
