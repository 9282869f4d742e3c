"""Work on a closed store: verifying, repairing, copying."""
