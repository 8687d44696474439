"""What a run is about: tables at sources, views over them, transactions that will happen, and generated ones."""
