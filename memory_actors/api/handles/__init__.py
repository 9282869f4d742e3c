"""What callers hold: cheap objects that turn method calls into commands and states into answers."""
