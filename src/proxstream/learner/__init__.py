"""The compiled online learner: one row costs its non-zeros, whatever the dimension."""
