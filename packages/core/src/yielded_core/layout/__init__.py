"""Layout 21: what a store is made of, and how an existing one is recognised (LAY-1 to LAY-5)."""
