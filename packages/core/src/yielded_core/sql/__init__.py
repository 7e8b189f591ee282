"""The ports over a SQL database: what SQLite and PostgreSQL share (extra `sql`)."""
