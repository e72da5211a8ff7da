-- The log: streams, their partitions, the events, and what transactions of the host have put aside for it.

CREATE TABLE {streams} (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name       text COLLATE "C" NOT NULL UNIQUE,
    partitions integer NOT NULL,
    created_at timestamptz NOT NULL
);

-- A partition's row is its lock: who appends holds it from giving sequences to commit. It is updated in place, in a page
-- with room for the next version, and vacuumed by count, not by share.
CREATE TABLE {partitions} (
    stream_id bigint  NOT NULL REFERENCES {streams},
    partition integer NOT NULL,
    high      bigint  NOT NULL DEFAULT 0,
    PRIMARY KEY (stream_id, partition)
) WITH (fillfactor = 30, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);

CREATE TABLE {events} (
    stream_id bigint      NOT NULL,
    sequence  bigint      NOT NULL,
    ts        timestamptz NOT NULL,
    partition integer     NOT NULL,
    id        text COLLATE "C" NOT NULL,
    key       text COLLATE "C" NOT NULL,
    type      text COLLATE "C" NOT NULL,
    metadata  jsonb,
    payload   jsonb NOT NULL,
    PRIMARY KEY (stream_id, partition, sequence)
);

CREATE UNIQUE INDEX {=events_id} ON {events} (stream_id, partition, id);

-- What AppendTx put aside. Nothing here is unique, so that no transaction ever waits for another; serial keeps the order
-- within one.
CREATE TABLE {pending} (
    serial    bigint GENERATED ALWAYS AS IDENTITY,
    stream_id bigint      NOT NULL,
    ts        timestamptz NOT NULL,
    partition integer     NOT NULL,
    id        text COLLATE "C" NOT NULL,
    key       text COLLATE "C" NOT NULL,
    type      text COLLATE "C" NOT NULL,
    metadata  jsonb,
    payload   jsonb NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX {=pending_order} ON {pending} (stream_id, partition, serial);

-- place_pending gives the events that committed transactions have put aside their sequences. Partitions are locked in
-- ascending order, as an append does; a volatile function's statements each see what was committed before they began,
-- so that no duplicate escapes. It moves a bounded number at a time, and returns whether there are more.
CREATE FUNCTION {place_pending}(of_stream bigint) RETURNS boolean LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    at     integer;
    last   bigint;
    placed bigint;
BEGIN
    FOR at IN SELECT DISTINCT w.partition FROM {pending} w WHERE w.stream_id = of_stream ORDER BY 1 LOOP
        SELECT p.high INTO last FROM {partitions} p WHERE p.stream_id = of_stream AND p.partition = at FOR UPDATE;
        WITH waiting AS (
            SELECT w.serial FROM {pending} w WHERE w.stream_id = of_stream AND w.partition = at ORDER BY w.serial LIMIT 1000
        ), taken AS (
            DELETE FROM {pending} w
            WHERE w.stream_id = of_stream AND w.partition = at
              AND w.serial = ANY (ARRAY(SELECT serial FROM waiting))
            RETURNING w.*
        ), firsts AS (
            SELECT DISTINCT ON (t.id) t.* FROM taken t ORDER BY t.id, t.serial
        )
        INSERT INTO {events} (stream_id, sequence, ts, partition, id, key, type, metadata, payload)
        SELECT f.stream_id, last + row_number() OVER (ORDER BY f.serial), f.ts, f.partition, f.id, f.key, f.type, f.metadata, f.payload
        FROM firsts f
        WHERE NOT EXISTS (SELECT FROM {events} e WHERE e.stream_id = of_stream AND e.partition = at AND e.id = f.id);
        GET DIAGNOSTICS placed = ROW_COUNT;
        UPDATE {partitions} p SET high = last + placed WHERE p.stream_id = of_stream AND p.partition = at;
    END LOOP;
    RETURN EXISTS (SELECT FROM {pending} w WHERE w.stream_id = of_stream);
END $$;
