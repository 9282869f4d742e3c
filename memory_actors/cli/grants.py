"""grant, revoke, grants."""

from collections.abc import Mapping

import click

from memory_actors.base.records import Right
from memory_actors.cli.deriving import mirrors
from memory_actors.cli.output import print_table, table, text

RIGHT = click.argument("right", type=click.Choice([right.value for right in Right]), default="read")


def _show(found: Mapping[str, Right]) -> None:
    rows = table("subject", "right")
    for subject, right in found.items():
        rows.add_row(text(subject), right)
    print_table(rows, "Nobody has a grant.")


grants = mirrors("grants", name="grants", help="List who may do what in the memory of --user.")(
    _show
)
revoke = mirrors("revoke", name="revoke", help="Take the right of SUBJECT.")(_show)
grant = mirrors(
    "grant", name="grant", new=True, right=RIGHT,
    help="""Give SUBJECT a right in the memory of --user: read, write or manage.

    SUBJECT is a person, agent:NAME or key:ID. From the first grant on, nobody else gets in.
    """,
)(_show)  # fmt: skip
