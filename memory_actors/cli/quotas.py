"""usage, cost, tier; grant, revoke, grants."""

from collections.abc import Mapping, Sequence

import click
from rich.bar import Bar

from memory_actors.api.user import UserMemory
from memory_actors.base.quota import GIB
from memory_actors.base.records import MemoryType, QuotaUse, Right, Tier
from memory_actors.base.statistics import CostEstimate, KindUsage, SystemUsage, Usage
from memory_actors.cli import options
from memory_actors.cli.deriving import mirrors
from memory_actors.cli.options import App
from memory_actors.cli.output import (
    counted,
    of_unit,
    print_for_programs,
    print_result,
    print_table,
    say,
    size,
    table,
    text,
)
from memory_actors.cli.running import with_system, with_user

BAR_CELLS = 12
CRITICAL, WARNING = 95.0, 80.0  # percent, as for alerts
CENT = 0.01
RELATIONSHIPS = "  relationships"  # below the entities, with which their sizes are counted

EACH = {
    "short_term.messages": "a session",
    "short_term.bytes": "a session",
    "episodic.episodes": "an agent",
}
"""Limits that are not of the user as a whole: what is used is then of the fullest one."""
_NOUNS = {"bytes": "size", "size_bytes": "size"}
_PLAIN = {
    "count": "entities", "entities": "entities", "relationships": "relationships",
    "episodes": "episodes", "documents": "documents",
}  # fmt: skip
"""Names of limits that need no kind before them; only entities are limited by `count`."""


# --- usage


@options.command()
@click.option("--all", "everybody", is_flag=True, help="Of all users together.")
def usage(app: App, /, everybody: bool) -> None:
    """Show how much memory is held, and how full each limit is."""
    if everybody:
        print_result(app, with_system(app, lambda memory: memory.usage()), _print_all)
    else:
        print_result(app, with_user(app, lambda user: user.usage()), _print_usage)


def _print_usage(used: Usage) -> None:
    right = ("memories", "size", "in the log", "evicted", "pruned")
    kinds = table("type", *right, title=f"User {used.user_id}, tier {used.tier}", right=right)
    for name, kind in used.kinds.items():
        kinds.add_row(name, *_row(kind))
        if name == MemoryType.ENTITY:
            kinds.add_row(RELATIONSHIPS, f"{_relationships(kind):,}")
    kinds.add_row("all", *_row(_sum(list(used.kinds.values()))), style="bold")
    print_table(kinds)
    say("")
    _print_limits(_quotas(used))
    say("A session, an agent: what is used is of the fullest one.", "dim")
    _say_over(used)


def _quotas(used: Usage) -> list[tuple[str, QuotaUse]]:
    return [
        (f"{name}.{use.quota}", use) for name, kind in used.kinds.items() for use in kind.quotas
    ]


def _relationships(kind: KindUsage) -> int:
    return sum(use.used for use in kind.quotas if use.quota == "relationships")


def _row(kind: KindUsage) -> tuple[str, ...]:
    return (
        f"{kind.count:,}", size(kind.size_bytes), size(kind.stored_bytes),
        f"{kind.evicted:,}", f"{kind.pruned:,}",
    )  # fmt: skip


def _sum(kinds: Sequence[KindUsage]) -> KindUsage:
    return KindUsage(
        count=sum(kind.count + _relationships(kind) for kind in kinds),
        size_bytes=sum(kind.size_bytes for kind in kinds),
        stored_bytes=sum(kind.stored_bytes for kind in kinds),
        evicted=sum(kind.evicted for kind in kinds),
        pruned=sum(kind.pruned for kind in kinds),
        quotas=(),
    )


def _print_limits(quotas: Sequence[tuple[str, QuotaUse]]) -> None:
    right = ("used", "limit", "%")
    limits = table("limit of", *right[:2], "", right[2], "", right=right)
    for name, use in quotas:
        is_little = use.used and use.percent < 0.1  # what is not nothing never reads as nothing
        percent = "<0.1" if is_little else f"{use.percent:.1f}"
        limits.add_row(
            _named(name), of_unit(use.used, use.unit), of_unit(use.limit, use.unit),
            EACH.get(name, ""), percent,
            Bar(100, 0, use.percent, width=BAR_CELLS, color=_colour(use)),
        )  # fmt: skip
    print_table(limits)


def _named(quota: str) -> str:
    """Return a quota's name as people say it: `entity.bytes` is the entity size."""
    kind, _, what = quota.partition(".")
    return _PLAIN.get(what) or f"{kind} {_NOUNS.get(what, what)}"


def _colour(use: QuotaUse) -> str:
    urgent = 0.0 if use.evicts else use.percent
    return "red" if urgent >= CRITICAL else "yellow" if urgent >= WARNING else "green"


def _say_over(used: Usage) -> None:
    over = [_named(name) for name, use in _quotas(used) if use.used > use.limit]
    if over:
        say(
            f"Above its limit: {', '.join(over)}. Reads work; adds are refused until there is room:"
            " delete some, or `memory-actors tier` sets another tier.",
            "red",
        )


def _print_all(used: SystemUsage) -> None:
    right = ("memories", "size", "in the log")
    kinds = table("type", *right, title=counted(used.users, "user"), right=right)
    for name, count in used.counts.items():
        kinds.add_row(
            name, f"{count:,}", size(used.size_bytes[name]), size(used.stored_bytes[name])
        )
        if name == MemoryType.ENTITY:
            kinds.add_row(RELATIONSHIPS, f"{used.relationships:,}")
    print_table(kinds)
    say("")
    _print_limits([(use.quota, use) for use in used.quotas])


# --- cost

ASSUMED = (
    "Assumed: what is held now is held for the whole month;",
    "vectors are float32, those searched by meaning;",
    "1 GB is 1024 MB;",
    "prices are those a hosted service would bill",
    "(Settings.prices, Settings.tiers).",
)


@mirrors("estimate_monthly_cost")
def cost(estimate: CostEstimate) -> None:
    """Estimate what the user's memory would cost a month."""
    right = ("used", "price", "a month")
    items = table("item", *right, title=f"User {estimate.user_id}", right=right)
    for item in estimate.items:
        in_thousands = counted(round(item.used * 1000), "node")  # a price is often per thousands
        amount = size(round(item.used * GIB)) if item.unit == "GB" else in_thousands
        items.add_row(
            item.name.replace("_", " "), amount, f"${item.price_usd:,.2f} per {item.unit}",
            _usd(item.cost_usd),
        )  # fmt: skip
    items.add_row(f"tier {estimate.tier}", "", "", _usd(estimate.tier_price_usd))
    items.add_row("total", "", "", _usd(estimate.total_usd), style="bold")
    print_table(items)
    say(
        f"The tier is {estimate.tier}: `memory-actors tier` sets another.",
        "dim",
    )
    for line in ASSUMED:
        say(line, "dim")


def _usd(amount: float) -> str:
    return f"<${CENT}" if 0 < amount < CENT else f"${amount:,.2f}"


# --- tier


@options.command(shared=options.OF_NEW)
@click.argument("tier", required=False, type=click.Choice([tier.value for tier in Tier]))
def tier(app: App, /, tier: str | None) -> None:
    """Show the user's tier, or set it: it sets the limits.

    A tier below the present use deletes nothing.
    """

    async def work(user: UserMemory) -> Usage:
        if tier is not None:
            await user.set_tier(tier)
        return await user.usage()

    used = with_user(app, work, create=tier is not None)
    if not print_for_programs(app, {"user_id": used.user_id, "tier": used.tier}):
        say(f"Tier of {used.user_id}: {used.tier}")
        _say_over(used)


# --- grants

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
