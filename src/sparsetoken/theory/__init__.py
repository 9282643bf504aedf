"""The exact answer in the limit of many dimensions and samples at a fixed ratio."""
