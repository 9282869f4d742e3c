"""The owners' tests of what we stand in for, run as they are: see docs/internals/contracts.md."""
