"""The kinds of stores: one contract, and for each place the few operations on files it needs."""
