"""grant, revoke, grants."""

from collections.abc import Mapping

import click

from memory_actors.base.records import Right
from memory_actors.cli.deriving import mirrors
from memory_actors.cli.output import print_table, table, text

RIGHT = click.argument(
    "right", type=click.Choice([right.value for right in Right]), default=Right.READ.value
)


@mirrors("grant", right=RIGHT, new=True)
def grant(found: Mapping[str, Right]) -> None:
    """Give SUBJECT a right in the memory of --user: read (the default), write or manage.

    SUBJECT is a person, agent:NAME or key:ID. From the first grant on, nobody else gets in.
    """
    _show(found)


@mirrors("revoke")
def revoke(found: Mapping[str, Right]) -> None:
    """Take the right of SUBJECT."""
    _show(found)


def _show(found: Mapping[str, Right]) -> None:
    rows = table("subject", "right")
    for subject, right in found.items():
        rows.add_row(text(subject), right)
    print_table(rows, "Nobody has a grant.")


@mirrors("grants")
def grants(found: Mapping[str, Right]) -> None:
    """List who may do what in the memory of --user."""
    _show(found)
