"""What all rooms speak in: records, errors, settings, limits, checks of input."""
