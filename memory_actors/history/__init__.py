"""What was, what became of it, and who it was shown to: answers for an audit, from the log."""
