"""From checked input to a command, and from its events to a receipt: one module for each kind."""
