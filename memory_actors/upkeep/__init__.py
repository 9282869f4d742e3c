"""A store kept in order: erasing users, verifying, repairing, importing a log."""
