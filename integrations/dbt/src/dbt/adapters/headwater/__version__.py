"""dbt asks for it by this name."""

version = "0.1.0"
