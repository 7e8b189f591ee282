"""Pure rules of the thread log: plain values in, plain values or a typed error out."""
