"""What is embedded for a memory: its content, and who said it."""

RECIPE = "spoken/1"
"""Names what `spoken` does. Vectors of another recipe are not found, so they are made anew."""


def spoken(content: str, role: str | None) -> str:
    """Return a content with its speaker in front, unless it says so already.

    A question mostly names whom it is about. On the development conversations turn recall@10 is
    0.334 with the bare words, and 0.493 with the speaker.
    """
    if role is None or content.casefold().startswith(f"{role.casefold()}:"):
        return content
    return f"{role}: {content}"
