"""From named columns to numbered features: hashing, crosses, n-grams, names."""
