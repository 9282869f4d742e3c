"""Work on a closed store: verifying, repairing, importing what another one exported."""
