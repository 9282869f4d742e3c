"""What is done to a closed store: verified, repaired, given what another one exported."""
