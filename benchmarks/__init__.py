"""Speed and quality, measured beside peers: `python -m benchmarks NAME`."""
