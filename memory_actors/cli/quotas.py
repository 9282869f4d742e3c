"""usage, cost, tier."""

from collections.abc import Collection

import click
from rich.text import Text

from memory_actors.cli.options import App, Command, pass_app
from memory_actors.cli.output import print_json, print_table, say, size, table
from memory_actors.cli.running import with_system, with_user
from memory_actors.handles.user import UserMemory
from memory_actors.records import MemoryType, QuotaUse, Tier, Usage
from memory_actors.system import MemorySystem
from memory_actors.usage import CostEstimate, SystemUsage

BAR_CELLS = 20
CRITICAL, WARNING = 95.0, 80.0  # percent, as for alerts


@click.command(cls=Command)
@click.option("--all", "everybody", is_flag=True, help="Of all users together.")
@pass_app
def usage(app: App, /, everybody: bool) -> None:
    """Show how much memory is held, and how full each limit is."""
    if everybody:
        _system_usage(app)
        return

    async def work(user: UserMemory) -> Usage:
        return await user.usage()

    used = with_user(app, work)
    if app.json:
        print_json(used)
        return
    _print_kinds(used)
    print_quotas(used)


def _print_kinds(used: Usage) -> None:
    right = ("memories", "size", "in the log", "evicted", "pruned")
    kinds = table("type", *right, title=f"User {used.user_id}", right=right)
    for name, kind in used.kinds.items():
        kinds.add_row(
            name, f"{kind.count:,}", size(kind.size_bytes), size(kind.stored_bytes),
            f"{kind.evicted:,}", f"{kind.pruned:,}",
        )  # fmt: skip
    print_table(kinds)


def print_quotas(used: Usage, kinds: Collection[str] = tuple(MemoryType)) -> None:
    """Print how full each limit of these kinds is."""
    uses = [
        (f"{name}.{use.quota}", use)
        for name, kind in used.kinds.items()
        if name in kinds
        for use in kind.quotas
    ]
    _print_quotas(f"Limits of tier {used.tier}", uses)


def _print_quotas(title: str, quotas: list[tuple[str, QuotaUse]]) -> None:
    right = ("used", "limit", "%")
    limits = table("quota", *right, "", title=title, right=right)
    for name, use in quotas:
        shown = size if use.unit == "bytes" else "{:,}".format
        limits.add_row(
            name, shown(use.used), shown(use.limit), f"{use.percent:.1f}", _bar(use.percent)
        )
    print_table(limits)


def _bar(percent: float) -> Text:
    filled = min(BAR_CELLS, round(percent / 100 * BAR_CELLS))
    colour = "red" if percent >= CRITICAL else "yellow" if percent >= WARNING else "green"
    return Text("█" * filled, colour) + Text("·" * (BAR_CELLS - filled), "dim")


def _system_usage(app: App) -> None:
    async def work(memory: MemorySystem) -> SystemUsage:
        return await memory.usage()

    used = with_system(app, work)
    if app.json:
        print_json(used)
        return
    right = ("memories", "size", "in the log")
    kinds = table("type", *right, title=f"{used.users:,} users", right=right)
    for name, count in used.counts.items():
        kinds.add_row(
            name, f"{count:,}", size(used.size_bytes[name]), size(used.stored_bytes[name])
        )
    print_table(kinds)
    _print_quotas("Limits over all users", [(use.quota, use) for use in used.quotas])


@click.command(cls=Command)
@pass_app
def cost(app: App, /) -> None:
    """Estimate what the user's memory would cost a month."""

    async def work(user: UserMemory) -> CostEstimate:
        return await user.estimate_monthly_cost()

    estimate = with_user(app, work)
    if app.json:
        print_json(estimate)
    else:
        print_cost(estimate)


def print_cost(estimate: CostEstimate) -> None:
    """Print an estimate, item by item."""
    right = ("used", "price", "a month")
    items = table("item", *right, title=f"User {estimate.user_id}", right=right)
    for item in estimate.items:
        items.add_row(
            item.name, f"{item.used:,.6g} {item.unit}", f"${item.price_usd:,.2f}",
            f"${item.cost_usd:,.6f}",
        )  # fmt: skip
    items.add_row(f"tier {estimate.tier}", "", "", f"${estimate.tier_price_usd:,.2f}")
    items.add_row("total", "", "", f"${estimate.total_usd:,.6f}")
    print_table(items)


@click.command(cls=Command)
@click.argument("tier", required=False, type=click.Choice([tier.value for tier in Tier]))
@pass_app
def tier(app: App, /, tier: str | None) -> None:
    """Show the user's tier, or set it to TIER."""

    async def work(user: UserMemory) -> Usage:
        if tier is not None:
            await user.set_tier(tier)
        return await user.usage()

    used = with_user(app, work, create=tier is not None)
    if app.json:
        print_json({"user_id": used.user_id, "tier": used.tier})
    else:
        say(f"Tier: {used.tier}")
