"""The ports as Protocols, and the values that cross them."""
