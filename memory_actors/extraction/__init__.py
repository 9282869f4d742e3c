"""From new messages to proposed facts: what to add, what holds no more, what to forget.

kinds/extracting.py decides which proposals are applied.
"""
