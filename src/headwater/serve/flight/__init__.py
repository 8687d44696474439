"""The views over Arrow Flight SQL: messages, log-in, catalogue and service."""
