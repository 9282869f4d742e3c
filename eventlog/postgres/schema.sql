-- The tables of the store and the procedures that write to them; docs/internals/postgres.md explains
-- them. Names and keys are bytea, because they may hold NUL. All of it may be run again.
--
-- A procedure commits by itself. So no lock waits for a client, not even for its last packet.

CREATE TABLE IF NOT EXISTS store (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    format integer NOT NULL,
    keys_identity bytea NOT NULL -- of an encrypted store; else empty
);

-- Whoever appends holds the lock of this one row from reading it to its commit: therefore positions
-- have no gaps, and become visible in order. Each change leaves a version of the row behind, which
-- nothing can remove while a snapshot from before is open, as that of a dump. By its era the newest one
-- is found among a few hundred, however many there are; the index changes only when one begins.
CREATE TABLE IF NOT EXISTS log_tail (
    position bigint NOT NULL,
    revision bigint NOT NULL, -- rises with each change of this row
    era bigint PRIMARY KEY DEFAULT 0, -- of some 256 revisions; it never goes back
    names bytea[] NOT NULL, -- of the totals that are not 0
    totals bigint[] NOT NULL
) WITH (fillfactor = 10);

-- Two for each store that is open somewhere: that of its batches, and that of its lease.
CREATE TABLE IF NOT EXISTS node (
    id bytea PRIMARY KEY,
    incarnation bigint NOT NULL, -- rises whenever the node connects: calls of an earlier one are void
    seq bigint NOT NULL, -- of its last batch that was committed
    position bigint NOT NULL, -- where that batch began
    refused bigint[] NOT NULL, -- the streams of that batch that were refused
    seen_at timestamptz NOT NULL,
    address bytea, -- where other nodes reach it; null: the row is of batches, and claims no streams
    expires_at timestamptz -- of its lease
) WITH (fillfactor = 50);

CREATE TABLE IF NOT EXISTS stream (
    sid bytea PRIMARY KEY,
    name bytea, -- null: erased, and nobody has written to it since
    version bigint NOT NULL,
    epoch bigint NOT NULL,
    stored_bytes bigint NOT NULL,
    chain bytea NOT NULL,
    recorded_at bigint NOT NULL, -- of its last event
    erased_version bigint NOT NULL DEFAULT 0,
    erased_at bigint NOT NULL DEFAULT 0,
    owner bytea -- the node that claimed it; it is nobody's once the lease of that node has expired
) WITH (fillfactor = 70);

CREATE TABLE IF NOT EXISTS event (
    position bigint PRIMARY KEY,
    sid bytea NOT NULL,
    version bigint NOT NULL,
    frame bytea STORAGE PLAIN NOT NULL, -- header and tag of a frame whose CRC is bound to the version
    payload bytea STORAGE EXTERNAL, -- salt and body of the frame; null: archived, dropped or erased
    gone_at bigint, -- when the payload was dropped or erased
    UNIQUE (sid, version)
);

CREATE TABLE IF NOT EXISTS event_archive (
    sid bytea NOT NULL,
    version bigint NOT NULL,
    payload bytea STORAGE EXTERNAL NOT NULL,
    archived_at bigint NOT NULL,
    PRIMARY KEY (sid, version)
);
CREATE INDEX IF NOT EXISTS event_archive_by_time ON event_archive (archived_at);

CREATE TABLE IF NOT EXISTS event_key (
    sid bytea NOT NULL,
    key bytea NOT NULL,
    version bigint NOT NULL,
    PRIMARY KEY (sid, key, version)
);

CREATE TABLE IF NOT EXISTS request (
    sid bytea NOT NULL,
    key bytea NOT NULL,
    digest bytea NOT NULL,
    first_version bigint NOT NULL,
    last_version bigint NOT NULL,
    PRIMARY KEY (sid, key)
);

CREATE TABLE IF NOT EXISTS snapshot (
    sid bytea NOT NULL,
    version bigint NOT NULL,
    fingerprint bytea NOT NULL,
    data bytea STORAGE EXTERNAL NOT NULL, -- sealed by a CRC
    PRIMARY KEY (sid, version)
);

CREATE TABLE IF NOT EXISTS derived ( -- what can be derived from a stream again
    sid bytea NOT NULL,
    name bytea NOT NULL,
    piece bytea STORAGE EXTERNAL NOT NULL,
    PRIMARY KEY (sid, name)
);

CREATE TABLE IF NOT EXISTS checkpoint (
    name bytea PRIMARY KEY, -- the id of the name
    position bytea NOT NULL -- unsigned, 64 bits
);

CREATE TABLE IF NOT EXISTS entry (
    name bytea NOT NULL,
    key bytea NOT NULL,
    value bytea NOT NULL,
    PRIMARY KEY (name, key)
);

CREATE TABLE IF NOT EXISTS setting ( -- what all nodes must agree on
    name bytea PRIMARY KEY,
    value bytea NOT NULL
);

INSERT INTO log_tail (position, revision, names, totals)
SELECT 0, 0, '{}', '{}' WHERE NOT EXISTS (SELECT FROM log_tail);

-- Take the lock of the tail, and return it as it is then: the row that is locked is its newest version,
-- whichever it was when the wait began.
CREATE OR REPLACE FUNCTION lock_tail() RETURNS log_tail
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    v_tail log_tail;
BEGIN
    SELECT * INTO v_tail FROM log_tail ORDER BY era DESC LIMIT 1 FOR UPDATE;
    RETURN v_tail;
END
$$;

-- Find the last version of a stream that is at or before a position or, if that is null, a time, which
-- is in the header of a frame: by halves, as eventlog/core/subscription.py does. Null: an event that
-- has to be there is not.
CREATE OR REPLACE FUNCTION version_at(p_sid bytea, p_position bigint, p_time bigint) RETURNS bigint
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_passed bigint := 0;
    v_until bigint;
    v_middle bigint;
    v_passes boolean;
BEGIN
    SELECT coalesce(max(version), 0) + 1 INTO v_until FROM stream WHERE sid = p_sid;
    WHILE v_until - v_passed > 1 LOOP
        v_middle := (v_passed + v_until) / 2;
        SELECT CASE WHEN p_position IS NOT NULL THEN position <= p_position
            ELSE ('x' || encode(substr(frame, 34, 8), 'hex'))::bit(64)::bigint <= p_time END
        INTO v_passes FROM event WHERE sid = p_sid AND version = v_middle;
        IF NOT FOUND THEN
            RETURN NULL;
        END IF;
        IF v_passes THEN
            v_passed := v_middle;
        ELSE
            v_until := v_middle;
        END IF;
    END LOOP;
    RETURN v_passed;
END
$$;

-- Sums of totals and what is added to them, by name. A total that is 0 is not listed.
CREATE OR REPLACE FUNCTION added_totals(
    p_names bytea[], p_totals bigint[], p_added bytea[], p_deltas numeric[],
    OUT o_names bytea[], OUT o_totals bigint[]
) LANGUAGE sql STABLE AS $$
    SELECT coalesce(array_agg(name), '{}'), coalesce(array_agg(total::bigint), '{}')
    FROM (
        SELECT name, sum(total) AS total
        FROM (
            SELECT name, total::numeric FROM unnest(p_names, p_totals) AS t (name, total)
            UNION ALL
            SELECT name, delta FROM unnest(p_added, p_deltas) AS d (name, delta)
        ) AS every
        GROUP BY name
    ) AS summed
    WHERE total <> 0
$$;

-- The rows of a batch. Each kind of them goes to the procedure as one array, for every parameter has its
-- price in every call. All but the streams name theirs by its number in the batch.
DO $$
BEGIN
    IF to_regtype('batch_stream') IS NULL THEN
        CREATE TYPE batch_stream AS (
            sid bytea,
            was_version bigint, was_epoch bigint, was_erased bigint, was_chain bytea, -- as believed
            version bigint, epoch bigint, stored_bytes bigint, chain bytea, recorded_at bigint,
            name bytea
        );
        CREATE TYPE batch_event AS (
            stream bigint, sid bytea, version bigint, frame bytea, payload bytea
        );
        CREATE TYPE batch_key AS (stream bigint, sid bytea, key bytea, version bigint);
        CREATE TYPE batch_request AS ( -- first_version is 0 of a key that is only looked up
            stream bigint, sid bytea, key bytea, digest bytea,
            first_version bigint, last_version bigint
        );
        CREATE TYPE batch_checkpoint AS (stream bigint, name bytea, position bytea);
        CREATE TYPE batch_entry AS (stream bigint, name bytea, key bytea, value bytea);
        CREATE TYPE batch_total AS (stream bigint, name bytea, delta bigint, cap bigint);
    END IF;
END
$$;

-- Append one batch of a node. Its streams are numbered from 1. A stream is refused, with all that
-- belongs to it, if it is not where the node believed, or if one of the idempotency keys is taken:
-- the node looks again and tries again. Of what it believed rightly, it knows the outcome itself.
--
-- o_state: 'done'; 'superseded': a later incarnation of the node has come, so nothing was done;
-- 'totals': one might leave its range or pass its cap, so nothing was done, and o_totals say what
-- they are.
--
-- Few statements write the rows that every batch has: a statement costs more than an event.
CREATE OR REPLACE PROCEDURE append_batch(
    p_node bytea, p_incarnation bigint, p_seq bigint,
    p_streams batch_stream[], p_events batch_event[], p_keys batch_key[],
    p_requests batch_request[], p_checkpoints batch_checkpoint[], p_entries batch_entry[],
    p_totals batch_total[],
    INOUT o_state text, INOUT o_position bigint, INOUT o_refused bigint[],
    INOUT o_names bytea[], INOUT o_totals bigint[], INOUT o_revision bigint
) LANGUAGE plpgsql AS $$
DECLARE
    v_era bigint;
    v_trouble boolean;
    v_names bytea[];
    v_deltas numeric[];
    v_totals bigint[];
BEGIN
    -- Who has waited here goes on with the newest version of the row, whose era may have risen since.
    UPDATE log_tail SET position = position + cardinality(p_events), revision = revision + 1,
        era = greatest(era, (revision + 1) / 256)
    WHERE era >= (SELECT max(era) FROM log_tail)
    RETURNING position - cardinality(p_events), revision - 1, era, names, totals
    INTO o_position, o_revision, v_era, o_names, o_totals;

    SELECT array_agg(b.n) FILTER (WHERE coalesce(s.version, 0) <> b.was_version
            OR coalesce(s.epoch, 0) <> b.was_epoch
            OR coalesce(s.erased_version, 0) <> b.was_erased OR s.chain <> b.was_chain)
    INTO o_refused
    FROM unnest(p_streams) WITH ORDINALITY AS b (
        sid, was_version, was_epoch, was_erased, was_chain,
        version, epoch, stored_bytes, chain, recorded_at, name, n
    )
    LEFT JOIN stream AS s ON s.sid = b.sid;
    o_refused := coalesce(o_refused, '{}');
    IF p_requests <> '{}' THEN
        SELECT o_refused || coalesce(array_agg(DISTINCT r.stream), '{}') INTO o_refused
        FROM unnest(p_requests) AS r
        JOIN request AS q ON q.sid = r.sid AND q.key = r.key
        JOIN stream AS s ON s.sid = q.sid AND q.last_version > s.erased_version;
    END IF;

    IF p_totals <> '{}' THEN
        SELECT coalesce(array_agg(name), '{}'), coalesce(array_agg(up + down), '{}'),
            coalesce(bool_or(coalesce(total, 0) + down < 0
                OR up > 0 AND coalesce(total, 0) + up > cap), false)
        INTO v_names, v_deltas, v_trouble
        FROM (
            SELECT name, sum(greatest(delta, 0)) AS up, sum(least(delta, 0)) AS down,
                min(cap) AS cap
            FROM unnest(p_totals)
            WHERE stream <> ALL (o_refused)
            GROUP BY name
        ) AS added
        LEFT JOIN unnest(o_names, o_totals) AS t (known, total) ON t.known = added.name;
        IF NOT v_trouble THEN
            SELECT a.o_names, a.o_totals INTO v_names, v_totals
            FROM added_totals(o_names, o_totals, v_names, v_deltas) AS a;
            v_trouble := cardinality(v_names) > 256;
        END IF;
        IF v_trouble THEN
            ROLLBACK;
            o_state := 'totals';
            RETURN;
        END IF;
        o_names := v_names;
        o_totals := v_totals;
    END IF;
    IF p_totals <> '{}' OR o_refused <> '{}' THEN
        UPDATE log_tail SET names = o_names, totals = o_totals, position = o_position
            + (SELECT count(*) FROM unnest(p_events) WHERE stream <> ALL (o_refused))
        WHERE era = v_era;
    END IF;

    WITH events AS (
        INSERT INTO event (position, sid, version, frame, payload)
        SELECT o_position + row_number() OVER (ORDER BY n), sid, version, frame, payload
        FROM unnest(p_events) WITH ORDINALITY AS e (stream, sid, version, frame, payload, n)
        WHERE stream <> ALL (o_refused)
    ), streams AS (
        INSERT INTO stream (sid, name, version, epoch, stored_bytes, chain, recorded_at)
        SELECT sid, name, version, epoch, stored_bytes, chain, recorded_at
        FROM unnest(p_streams) WITH ORDINALITY AS b (
            sid, was_version, was_epoch, was_erased, was_chain,
            version, epoch, stored_bytes, chain, recorded_at, name, n
        )
        WHERE version > was_version AND n <> ALL (o_refused)
        ON CONFLICT (sid) DO UPDATE SET name = excluded.name, version = excluded.version,
            epoch = excluded.epoch, stored_bytes = excluded.stored_bytes, chain = excluded.chain,
            recorded_at = excluded.recorded_at
    ), keys AS (
        INSERT INTO event_key (sid, key, version)
        SELECT sid, key, version FROM unnest(p_keys) WHERE stream <> ALL (o_refused)
    )
    UPDATE node SET seq = p_seq, position = o_position, refused = o_refused, seen_at = now()
    WHERE id = p_node AND incarnation = p_incarnation AND seq = p_seq - 1;
    IF NOT FOUND THEN
        ROLLBACK;
        o_state := 'superseded';
        RETURN;
    END IF;

    IF p_requests <> '{}' THEN
        INSERT INTO request (sid, key, digest, first_version, last_version)
        SELECT sid, key, digest, first_version, last_version
        FROM unnest(p_requests)
        WHERE first_version > 0 AND stream <> ALL (o_refused)
        ON CONFLICT (sid, key) DO UPDATE SET digest = excluded.digest, -- of what was erased
            first_version = excluded.first_version, last_version = excluded.last_version;
    END IF;
    IF p_checkpoints <> '{}' THEN
        INSERT INTO checkpoint (name, position)
        SELECT DISTINCT ON (name) name, position
        FROM unnest(p_checkpoints) WITH ORDINALITY AS c (stream, name, position, n)
        WHERE stream <> ALL (o_refused)
        ORDER BY name, n DESC
        ON CONFLICT (name) DO UPDATE SET position = excluded.position;
        WITH last AS (
            SELECT DISTINCT ON (name, key) name, key, value
            FROM unnest(p_entries) WITH ORDINALITY AS w (stream, name, key, value, n)
            WHERE stream <> ALL (o_refused)
            ORDER BY name, key, n DESC
        ), gone AS (
            DELETE FROM entry USING last
            WHERE entry.name = last.name AND entry.key = last.key AND last.value IS NULL
        )
        INSERT INTO entry (name, key, value)
        SELECT name, key, value FROM last WHERE value IS NOT NULL
        ON CONFLICT (name, key) DO UPDATE SET value = excluded.value;
    END IF;
    COMMIT;
    o_revision := o_revision + 1;
    o_state := 'done';
END
$$;

-- The lock that orders the pieces derived from a stream with its epoch and its erasure. A writer of
-- pieces shares it; a change of owner or an erasure has it alone, and takes it before any other. The
-- row of the stream would do as well, but appends wait for that one, and hold up everybody then. All
-- stores in a database share these locks, so the schema is part of the key.
CREATE OR REPLACE FUNCTION derived_lock(p_sid bytea) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT hashtextextended(concat_ws(' ', 'derived', encode(p_sid, 'hex'), current_schema()), 0)
$$;

-- Keep pieces derived from a stream, or delete those that are null; not if it has another epoch.
CREATE OR REPLACE PROCEDURE save_derived(
    p_sid bytea, p_epoch bigint, p_names bytea[], p_pieces bytea[], INOUT o_kept boolean
) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(derived_lock(p_sid));
    PERFORM FROM stream WHERE sid = p_sid AND epoch = p_epoch AND version > erased_version;
    o_kept := FOUND;
    IF o_kept THEN
        DELETE FROM derived AS d USING unnest(p_names, p_pieces) AS p (name, piece)
        WHERE d.sid = p_sid AND d.name = p.name AND p.piece IS NULL;
        INSERT INTO derived (sid, name, piece)
        SELECT p_sid, name, piece FROM unnest(p_names, p_pieces) AS p (name, piece)
        WHERE piece IS NOT NULL
        ORDER BY name -- so that two who save the same ones do not wait for each other
        ON CONFLICT (sid, name) DO UPDATE SET piece = excluded.piece;
    END IF;
    COMMIT;
END
$$;

-- Keep a snapshot and the newest ones before it; none ahead of its stream, and none of what is erased:
-- whoever is late leaves nothing of it behind.
CREATE OR REPLACE PROCEDURE save_snapshot(
    p_sid bytea, p_version bigint, p_fingerprint bytea, p_data bytea, p_kept bigint
) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(derived_lock(p_sid));
    INSERT INTO snapshot (sid, version, fingerprint, data)
    SELECT sid, p_version, p_fingerprint, p_data FROM stream
    WHERE sid = p_sid AND version >= p_version AND erased_version < p_version
    ON CONFLICT (sid, version) DO UPDATE
    SET fingerprint = excluded.fingerprint, data = excluded.data;
    IF FOUND THEN
        DELETE FROM snapshot AS s WHERE s.sid = p_sid AND s.version NOT IN (
            SELECT n.version FROM snapshot AS n WHERE n.sid = p_sid
            ORDER BY n.version DESC LIMIT p_kept
        );
    END IF;
    COMMIT;
END
$$;

-- Raise the epoch of a stream; o_epoch is higher than p_epoch if it was.
CREATE OR REPLACE PROCEDURE acquire_stream(
    p_sid bytea, p_name bytea, p_epoch bigint, p_chain bytea, INOUT o_epoch bigint
) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(derived_lock(p_sid));
    PERFORM lock_tail();
    INSERT INTO stream (sid, name, version, epoch, stored_bytes, chain, recorded_at)
    VALUES (p_sid, p_name, 0, p_epoch, 0, p_chain, -9223372036854775808)
    ON CONFLICT (sid) DO UPDATE SET epoch = excluded.epoch, name = excluded.name
    WHERE stream.epoch <= excluded.epoch;
    SELECT epoch INTO o_epoch FROM stream WHERE sid = p_sid;
    COMMIT;
END
$$;

-- Renew the lease of a node, whose row is made again if it is gone. o_held is said after the commit:
-- true if the lease before this one had not expired until others could see the new one.
CREATE OR REPLACE PROCEDURE renew_lease(
    p_node bytea, p_address bytea, p_seconds double precision, INOUT o_held boolean
) LANGUAGE plpgsql AS $$
DECLARE
    v_before timestamptz;
BEGIN
    SELECT expires_at INTO v_before FROM node WHERE id = p_node FOR UPDATE;
    INSERT INTO node (id, incarnation, seq, position, refused, seen_at, address, expires_at)
    VALUES (p_node, 1, 0, 0, '{}', now(), p_address,
        clock_timestamp() + make_interval(secs => p_seconds))
    ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at, address = excluded.address,
        expires_at = excluded.expires_at;
    COMMIT;
    o_held := coalesce(v_before > clock_timestamp(), false);
END
$$;

-- Claim a stream for a node: if nobody has it, or who has it let its lease expire. Then o_epoch is the
-- new epoch and o_holder is null. Otherwise o_holder has it, at o_address. o_epoch is null if the
-- lease of this node has expired itself. A stream that has no events gets no name by this.
CREATE OR REPLACE PROCEDURE claim_stream(
    p_sid bytea, p_node bytea, p_chain bytea,
    INOUT o_epoch bigint, INOUT o_holder bytea, INOUT o_address bytea
) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(derived_lock(p_sid));
    PERFORM lock_tail();
    SELECT s.epoch, n.id, n.address INTO o_epoch, o_holder, o_address
    FROM stream AS s JOIN node AS n ON n.id = s.owner
    WHERE s.sid = p_sid AND n.id <> p_node AND n.expires_at > clock_timestamp();
    IF FOUND THEN
        COMMIT;
        RETURN;
    END IF;
    PERFORM FROM node WHERE id = p_node AND expires_at > clock_timestamp();
    IF FOUND THEN
        INSERT INTO stream (sid, version, epoch, stored_bytes, chain, recorded_at, owner)
        VALUES (p_sid, 0, 1, 0, p_chain, -9223372036854775808, p_node)
        ON CONFLICT (sid) DO UPDATE SET epoch = stream.epoch + 1, owner = excluded.owner
        RETURNING epoch INTO o_epoch;
    END IF;
    COMMIT;
END
$$;

-- Mark a stream as erased at a time, by which every reader goes: up to o_until, where o_before was the
-- mark until then. Repeated with the same time, it says the same again. With an epoch, only if that is
-- the stream's, which o_epoch says. The rows go afterwards (erasing.py), but for what was derived: of
-- that there is little left here.
CREATE OR REPLACE PROCEDURE mark_erased(
    p_sid bytea, p_at bigint, p_projections bytea[], p_names bytea[], p_counted bigint[],
    p_epoch bigint, INOUT o_before bigint, INOUT o_until bigint, INOUT o_epoch bigint
) LANGUAGE plpgsql AS $$
DECLARE
    v_tail log_tail;
    v_stream stream;
    v_names bytea[];
    v_deltas numeric[];
BEGIN
    PERFORM pg_advisory_xact_lock(derived_lock(p_sid));
    DELETE FROM derived WHERE sid = p_sid; -- nobody waits for it at the tail
    v_tail := lock_tail();
    SELECT * INTO v_stream FROM stream WHERE sid = p_sid;
    o_epoch := v_stream.epoch;
    o_until := coalesce(v_stream.version, 0);
    IF p_epoch <> o_epoch THEN
        ROLLBACK;
        RETURN;
    END IF;
    UPDATE stream SET name = NULL WHERE sid = p_sid AND version = erased_version;
    IF o_until > v_stream.erased_version THEN
        o_before := v_stream.erased_version;
        UPDATE stream SET name = NULL, erased_version = version, erased_at = p_at WHERE sid = p_sid;
        DELETE FROM checkpoint WHERE name = ANY (p_projections);
        DELETE FROM entry WHERE name = ANY (p_projections);
        SELECT array_agg(c.name), array_agg(-least(c.counted, t.total)::numeric)
        INTO v_names, v_deltas
        FROM unnest(p_names, p_counted) AS c (name, counted)
        JOIN unnest(v_tail.names, v_tail.totals) AS t (name, total) ON t.name = c.name;
        UPDATE log_tail SET revision = revision + 1, names = a.o_names, totals = a.o_totals
        FROM added_totals(v_tail.names, v_tail.totals, v_names, v_deltas) AS a
        WHERE era = v_tail.era;
    ELSIF v_stream.erased_at IS DISTINCT FROM p_at THEN
        o_before := o_until;
    END IF;
    COMMIT;
END
$$;
