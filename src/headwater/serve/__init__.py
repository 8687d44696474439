"""The views as a read-only PostgreSQL database: protocol, session, catalogue and server."""
