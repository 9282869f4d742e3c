"""Payloads that only audits need, in compressed blocks in files of their own."""
