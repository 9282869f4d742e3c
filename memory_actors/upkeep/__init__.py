"""A store kept in order: erasing users, switching the model, verifying, repairing, copying."""
