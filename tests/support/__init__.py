"""Fakes and helpers shared by tests."""
