-- Groups. No row stands for a delivery: a group's whole state in a partition is the ledger in one row.

CREATE TABLE {groups} (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    stream_id    bigint NOT NULL REFERENCES {streams},
    name         text COLLATE "C" NOT NULL,
    partitions   integer[] NOT NULL,
    max_attempts integer NOT NULL,
    ordering     text NOT NULL,
    created_at   timestamptz NOT NULL,
    UNIQUE (stream_id, name)
);

-- version is a random number, another with every write: what a process remembers of a ledger is true while the version is
-- the same, also after a crash that lost writes not yet flushed. The columns from cursor to held are what a fetch chooses
-- by; the ledger itself is binary (see ledger_runs). Times are microseconds since 1970.
CREATE TABLE {ledgers} (
    group_id  bigint  NOT NULL REFERENCES {groups},
    version   bigint  NOT NULL,
    cursor    bigint  NOT NULL, -- the highest sequence ever offered
    frontier  bigint  NOT NULL, -- all up to here is acked or rejected
    due       bigint  NOT NULL, -- when something offered before is to be offered again, at the earliest
    held      bigint  NOT NULL, -- ordered groups: until when nothing is to be had
    start     bigint  NOT NULL, -- the cursor it was created with
    partition integer NOT NULL,
    ledger    bytea   NOT NULL,
    PRIMARY KEY (group_id, partition)
) WITH (fillfactor = 30, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);

ALTER TABLE {ledgers} ALTER COLUMN ledger SET STORAGE EXTERNAL;

CREATE TABLE {rejected} (
    group_id    bigint  NOT NULL REFERENCES {groups},
    sequence    bigint  NOT NULL,
    rejected_at timestamptz NOT NULL,
    partition   integer NOT NULL,
    attempts    integer NOT NULL,
    reason      text    NOT NULL,
    PRIMARY KEY (group_id, partition, sequence)
);
