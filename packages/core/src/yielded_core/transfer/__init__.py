"""Moving a thread out of a store and into another one, and verifying it on the way."""
