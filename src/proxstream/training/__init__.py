"""Training from streams: sessions with progress reports, held-out rows, early stopping and checkpoints."""
