"""The operations of the ledger, each written once: evidence, rule, rows, in one transaction."""
