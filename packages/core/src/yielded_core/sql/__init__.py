"""The ports over a SQL database, reads and writes: what SQLite and PostgreSQL share."""
