"""Permanent removal from a user's memory, and its limits: purge, forget, hold, retention."""

import secrets
from collections.abc import Sequence
from typing import Final

from eventlog import RedactingStore, require
from eventlog.core.records import to_datetime, to_us
from memory_actors.api.forgetting import KEY_BYTES, forget, forget_gone, meant, named, with_codes
from memory_actors.api.reads import UserReads
from memory_actors.base import validation
from memory_actors.base.errors import InvalidInputError, NotFoundError
from memory_actors.base.origins import origins_of
from memory_actors.base.records import Trust
from memory_actors.base.reports import Forgotten, ForgottenFact, Hold, Purged, Retained
from memory_actors.kinds import account
from memory_actors.kinds.account import SetHold
from memory_actors.kinds.grants import SetRight
from memory_actors.kinds.purging import ApplyRetention
from memory_actors.kinds.tombstones import LiftTombstones, PutTombstones, Tombstone, tombstones_of
from memory_actors.users.holds import holds_of, refuse_held
from memory_actors.users.purges import by_kind, checked_source, purge_source, retained, taken_out

APPLIED: Final = ApplyRetention.__name__.encode()


class UserDataProtection(UserReads):
    """Operations of a user that take memories out, or keep them. See `UserMemory`."""

    async def purge(
        self,
        source: str | None = None,
        *,
        trust: Trust | str | None = None,
        dry_run: bool = False,
    ) -> Purged:
        """Remove everything from a source, of a trust level, or both, from memory.

        Each memory becomes what it would be had the source not spoken: what it wrote goes, what it
        changed says again what others have said. Summaries that have anything of it go, and their
        other originals come back, as far as there is room. The log keeps all of it, for audits.

        It is done in batches of up to 100 memories, each whole or not at all; after a crash, or an
        error, repeat it. With `dry_run` nothing changes.

        :raises InvalidInputError: neither a source nor a trust, or an unknown one.
        """
        named, level = checked_source(source, trust)
        validation.check_flag(dry_run, "dry_run")
        scope, now_us = self._scope, self._scope.now_us()
        work = purge_source(scope, named, level, dry_run=dry_run)
        with scope.measured("Purge", "any"):
            done = await (work if dry_run else scope.unattended(work))
        return Purged(
            user_id=scope.user_id,
            source=named,
            trust=level,
            dry_run=dry_run,
            purged_at=to_datetime(now_us),
            **taken_out(done),
        )

    async def forget(
        self,
        what: str,
        *,
        everywhere: bool = True,
        similar: float | None = None,
        reason: str = "",
        dry_run: bool = False,
    ) -> Forgotten:
        """Forget a fact: take it out of all kinds and out of the log, and refuse it from now on.

        `what` is the id of a memory that says it, also of one that was deleted, or the fact in
        words. The memory goes, and with `everywhere` whatever else says the same: the same words
        but for case, white space and punctuation at the end, as a text, sentence or clause of its
        own. A text that says more loses that part; where that cannot be done, the memory is `kept`.
        Summaries of it go, and their other originals come back.

        The log keeps the events, with `[forgotten]` in the place of the words; no file has them any
        more. A tombstone stays: a digest by which the fact is refused when it is added, captured,
        imported or extracted again (`ForgottenError`; in bulk, the receipt's operation is
        `forgotten`). With `similar`, a cosine from 0 to 1, it also has the embedding of the fact,
        and refuses facts at least that similar. `unforget` lifts it. With `dry_run` nothing
        changes.

        Other calls of this user get `BeingErasedError` while the log is rewritten; another `forget`
        waits. After a crash, or an error, repeat it.

        :raises NotFoundError: nothing says that: give the id of a memory.
        :raises HeldError: the user is under a legal hold.
        :raises InvalidInputError: an argument is not what it must be.
        :raises MissingCapability: the store cannot take words out of the log.
        :raises EmbedderError: `similar` is given, and the fact could not be embedded.
        """
        scope = self._scope
        scope.check_writable()
        validation.text_bytes(what, "what", validation.CONTENT_BYTES_MAX)
        validation.check_optional_name(reason or None, "reason")
        for flag, name in ((everywhere, "everywhere"), (dry_run, "dry_run")):
            validation.check_flag(flag, name)
        least = 0.0 if similar is None else validation.check_share(similar, "similar")
        require(scope.services.log, RedactingStore)

        async def work() -> Forgotten:
            async with scope.services.turn("forget", scope.stream):
                key, known = secrets.token_bytes(KEY_BYTES), (await scope.state()).tombstones
                refuse_held(await holds_of(scope.services.log, scope.stream))
                fact, now_us = await meant(scope, what), scope.now_us()
                stones = tombstones_of(fact.texts, known, key, now_us, reason)
                if least:
                    stones = await with_codes(scope.embeddings, fact.texts, stones, least)
                if not (fact.chosen or (everywhere and await named(scope, fact))):
                    raise NotFoundError(
                        f"nothing says {what!r:.80}: search for it, and give the id of the memory "
                        "that does"
                    )
                done, rewritten = await forget(
                    scope, fact, stones, everywhere=everywhere, dry_run=dry_run
                )
            return Forgotten(
                user_id=scope.user_id,
                dry_run=dry_run,
                forgotten_at=to_datetime(now_us),
                tombstones=tuple(one.digest.hex() for one in stones),
                kept=by_kind(one for each in done for one in each.kept),
                rewritten=rewritten,
                **taken_out(done),
            )

        with scope.measured("Forget", "any"):
            return await (work() if dry_run else scope.unattended(work()))

    async def unforget(self, what: str) -> ForgottenFact:
        """Let something that was forgotten come again: by its digest, or in its words.

        Return its tombstone, which is gone.

        :raises NotFoundError: it was not forgotten.
        """
        self._scope.check_writable()
        validation.text_bytes(what, "what", validation.CONTENT_BYTES_MAX)
        state = (await self._scope.state()).tombstones
        by_name = {one.digest.hex(): one for one in state.by_digest.values()}
        found = by_name.get(what) or state.of(what)
        if found is None:
            raise NotFoundError(f"{what!r:.80} was not forgotten: `forgotten` lists what was")
        command = LiftTombstones(now_us=self._scope.now_us(), digests=(found.digest,))
        await self._scope.carry_out(command)
        return _told(found)

    async def forgotten(self) -> list[ForgottenFact]:
        """Return the forgotten facts that are refused, newest first: digests and times, no text.

        :raises AccessDeniedError: the subjects of the handle may not manage here: whoever has the
            key of a digest can test a guess.
        """
        stones = (await self._scope.managed()).tombstones.by_digest.values()
        return [_told(one) for one in sorted(stones, key=lambda one: -one.at_us)]

    async def hold(self, reason: str) -> Hold:
        """Put this user under a legal hold, until `release`; there may be several.

        Meanwhile no retention rule applies and nothing expires by its time to live. The log
        drops no event, recalls included, and `erase` and `forget` are refused. Writes,
        deletes and quotas work as ever, and the sessions of short-term memory end: the log keeps
        what leaves. It keeps who placed the hold, too: the subject of this handle, or its agent.

        :raises InvalidInputError: a reason that is empty or over 512 bytes.
        """
        now_us = self._scope.now_us()
        hold_id = self._scope.new_id(now_us)
        reason = validation.check_name(reason, "reason")
        await self._scope.carry_out(SetHold(now_us=now_us, hold_id=hold_id, reason=reason))
        return await self._placed(hold_id)

    async def release(self, hold_id: str) -> Hold:
        """Release a legal hold. With the last one, memories that are due go.

        :raises NotFoundError: it is not in force.
        """
        hold_id = validation.check_name(hold_id, "hold_id")
        await self._scope.carry_out(SetHold(now_us=self._scope.now_us(), hold_id=hold_id))
        return await self._placed(hold_id)

    async def holds(self, *, released: bool = False) -> list[Hold]:
        """Return the legal holds in force, oldest first; with `released`, former ones, too."""
        validation.check_flag(released, "released")
        await self._scope.state()  # refuses who may not read here
        return await holds_of(self._scope.services.log, self._scope.stream, released=released)

    async def _placed(self, hold_id: str) -> Hold:
        return next(one for one in await self.holds(released=True) if one.hold_id == hold_id)

    async def apply_retention(self, *, dry_run: bool = False, from_log: bool = False) -> Retained:
        """Delete what the retention rules no longer allow, now: see `Settings.retention`.

        With `dry_run` nothing changes: the result is what would go. The log keeps what a memory
        was, for audits, as after a `delete`. With `from_log` the words of all that rules have ever
        deleted leave the log, too, as with `forget`: replays show that something was there. This
        rewrites the file of the log.

        :raises MissingCapability: the store cannot take words out of the log.
        """
        validation.check_flag(dry_run, "dry_run")
        validation.check_flag(from_log, "from_log")
        scope, now_us = self._scope, self._scope.now_us()
        with scope.measured(ApplyRetention.__name__, account.PART.NAME):
            async with scope.writable() as live:
                done = await retained(scope, live, dry_run=dry_run)
                held = bool(live.state.account.holds)
            rewritten = 0
            if from_log and not (dry_run or held):
                of_rules = forget_gone(scope, lambda one: APPLIED in one.raw_meta)
                rewritten = await scope.unattended(of_rules)
        return Retained(
            user_id=scope.user_id,
            dry_run=dry_run,
            applied_at=to_datetime(now_us),
            gone=by_kind(one for each in done for one in each.gone),
            held=held,
            rewritten=rewritten,
        )

    # --- for erasures and imports

    async def _leave(self, subject: str) -> None:
        """Take the grant of a subject who is erased, and what they wrote here, or their name of it.

        `Settings.shared_writes_on_erase` says which. Once is enough, and more does no harm.
        """
        await self._scope.unattended(self._left_by(subject))

    async def _left_by(self, subject: str) -> None:
        scope, log = self._scope, self._scope.services.log
        if subject in (await scope.state()).grants.rights:
            await scope.carry_out(SetRight(now_us=scope.now_us(), subject=subject))
        keep_words = scope.services.settings.shared_writes_on_erase == "anonymous"
        await purge_source(scope, subject, None, keep_words=keep_words)
        is_held = bool(await holds_of(log, scope.stream))  # then the log keeps it
        if not (keep_words or is_held) and isinstance(log, RedactingStore):
            await forget_gone(
                scope, lambda one: any(by.source == subject for by in origins_of(one))
            )

    async def _put_forgotten(self, facts: Sequence[ForgottenFact]) -> None:
        """Refuse what was forgotten in another store, as its export has it."""
        try:
            stones = tuple(
                Tombstone(
                    digest=bytes.fromhex(one.digest),
                    key=bytes.fromhex(one.key)[:KEY_BYTES],
                    at_us=to_us(one.at),
                    reason=one.reason,
                    similar=one.similar or 0.0,
                    code=bytes.fromhex(one.code),
                )
                for one in facts
            )
        except (AttributeError, TypeError, ValueError) as error:
            raise InvalidInputError(f"this is nothing that `forgotten` returns: {error}") from error
        await self._scope.carry_out(PutTombstones(now_us=self._scope.now_us(), tombstones=stones))


def _told(one: Tombstone) -> ForgottenFact:
    return ForgottenFact(
        digest=one.digest.hex(),
        at=to_datetime(one.at_us),
        reason=one.reason,
        similar=one.similar or None,
        key=one.key.hex(),
        code=one.code.hex(),
    )
