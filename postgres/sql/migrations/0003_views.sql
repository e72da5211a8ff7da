-- What an operator may want to select from.

-- uvarint reads a number in base 128, low groups first, and moves pos behind it.
CREATE FUNCTION {uvarint}(data bytea, INOUT pos integer, OUT value bigint) LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
    byte  integer;
    shift integer := 0;
BEGIN
    value := 0;
    LOOP
        byte := get_byte(data, pos);
        pos := pos + 1;
        value := value | ((byte & 127)::bigint << shift);
        EXIT WHEN byte < 128;
        shift := shift + 7;
    END LOOP;
END $$;

-- zigzag turns 0, 1, 2, 3, ... into 0, -1, 1, -2, ...
CREATE FUNCTION {zigzag}(value bigint) RETURNS bigint LANGUAGE sql IMMUTABLE STRICT AS $$
    SELECT ((value >> 1) & 9223372036854775807) # -(value & 1)
$$;

-- ledger_string reads a string: 0 is the empty one, a number known before stands for that one, the next number brings one.
CREATE FUNCTION {ledger_string}(ledger bytea, INOUT pos integer, INOUT strings text[], OUT value text) LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
    place bigint;
    size  bigint;
BEGIN
    SELECT u.pos, u.value INTO pos, place FROM {uvarint}(ledger, pos) u;
    IF place > cardinality(strings) THEN
        SELECT u.pos, u.value INTO pos, size FROM {uvarint}(ledger, pos) u;
        strings := strings || convert_from(substring(ledger FROM pos + 1 FOR size::integer), 'UTF8');
        pos := pos + size::integer;
    END IF;
    value := coalesce(strings[place], '');
END $$;

-- ledger_runs decodes a ledger: a row for each range of deliveries that are open and alike. The encoding is that of
-- package ledger, whose encode.go describes it.
CREATE FUNCTION {ledger_runs}(ledger bytea)
RETURNS TABLE (from_sequence bigint, to_sequence bigint, state text, attempt integer, at_micros bigint, claim text, consumer text, reason text)
LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
    pos      integer := 1;
    head     bigint;
    v        bigint;
    runs     bigint;
    last_to  bigint := 0;
    last_at  bigint := 0;
    lease    integer := 0;      -- the lease used last, by number from 1
    leases   integer := 0;      -- introduced so far; the last 16 are in the arrays, by number modulo 16
    claims   text[]   := array_fill(''::text, ARRAY[16]);
    expiries bigint[] := array_fill(0::bigint, ARRAY[16]);
    holders  text[]   := array_fill(''::text, ARRAY[16]);
    strings  text[]   := '{}';
BEGIN
    IF get_byte(ledger, 0) <> 1 THEN
        RAISE EXCEPTION 'ledger encoding % is newer than this function: migrate the schema', get_byte(ledger, 0);
    END IF;
    SELECT u.pos INTO pos FROM {uvarint}(ledger, pos) u;
    SELECT u.pos, u.value INTO pos, runs FROM {uvarint}(ledger, pos) u;
    FOR run IN 1 .. runs LOOP
        SELECT u.pos, u.value INTO pos, head FROM {uvarint}(ledger, pos) u;
        attempt := head >> 5;
        from_sequence := last_to + 1;
        IF head & 2 <> 0 THEN
            SELECT u.pos, u.value INTO pos, v FROM {uvarint}(ledger, pos) u;
            from_sequence := from_sequence + v + 1;
        END IF;
        to_sequence := from_sequence;
        IF head & 4 <> 0 THEN
            SELECT u.pos, u.value INTO pos, v FROM {uvarint}(ledger, pos) u;
            to_sequence := from_sequence + v + 1;
        END IF;
        last_to := to_sequence;
        reason := '';
        IF head & 8 <> 0 THEN
            SELECT u.pos, u.strings, u.value INTO pos, strings, reason FROM {ledger_string}(ledger, pos, strings) u;
        END IF;
        IF head & 1 = 0 THEN
            state := 'available';
            claim := '';
            consumer := '';
            at_micros := 0;
            IF head & 16 = 0 THEN
                SELECT u.pos, u.value INTO pos, v FROM {uvarint}(ledger, pos) u;
                last_at := last_at + {zigzag}(v);
                at_micros := last_at;
            END IF;
        ELSE
            state := 'leased';
            IF head & 16 = 0 THEN
                SELECT u.pos, u.value INTO pos, v FROM {uvarint}(ledger, pos) u;
                IF v > 0 THEN
                    lease := leases - v + 1;
                ELSE
                    claim := '';
                    FOR i IN REVERSE 7 .. 0 LOOP
                        claim := claim || lpad(to_hex(get_byte(ledger, pos + i)), 2, '0');
                    END LOOP;
                    SELECT u.pos, u.value INTO pos, v FROM {uvarint}(ledger, pos + 8) u;
                    at_micros := {zigzag}(v);
                    IF leases > 0 THEN
                        at_micros := at_micros + expiries[(leases - 1) % 16 + 1];
                    END IF;
                    SELECT u.pos, u.strings, u.value INTO pos, strings, consumer FROM {ledger_string}(ledger, pos, strings) u;
                    leases := leases + 1;
                    lease := leases;
                    claims[(lease - 1) % 16 + 1] := claim;
                    expiries[(lease - 1) % 16 + 1] := at_micros;
                    holders[(lease - 1) % 16 + 1] := consumer;
                END IF;
            END IF;
            claim := claims[(lease - 1) % 16 + 1];
            at_micros := expiries[(lease - 1) % 16 + 1];
            consumer := holders[(lease - 1) % 16 + 1];
        END IF;
        RETURN NEXT;
    END LOOP;
END $$;

CREATE FUNCTION {instant}(micros bigint) RETURNS timestamptz LANGUAGE sql IMMUTABLE STRICT AS $$
    SELECT timestamptz 'epoch' + (micros / 1000000) * interval '1 second' + (micros % 1000000) * interval '1 microsecond'
$$;

CREATE VIEW {leases} AS
SELECT s.name AS stream, g.name AS "group", l.partition, r.from_sequence, r.to_sequence,
       CASE WHEN r.state = 'leased' AND {instant}(r.at_micros) <= clock_timestamp() THEN 'expired' ELSE r.state END AS state,
       r.attempt, nullif(r.consumer, '') AS consumer, nullif(r.claim, '') AS claim,
       CASE WHEN r.state = 'leased' THEN {instant}(r.at_micros) END AS expires_at,
       CASE WHEN r.state = 'available' AND r.at_micros > 0 THEN {instant}(r.at_micros) END AS not_before,
       nullif(r.reason, '') AS reason
FROM {ledgers} l
JOIN {groups} g ON g.id = l.group_id
JOIN {streams} s ON s.id = g.stream_id
CROSS JOIN LATERAL {ledger_runs}(l.ledger) r;

CREATE VIEW {lag} AS
SELECT s.name AS stream, g.name AS "group", l.partition, l.frontier, l.cursor, p.high AS high_watermark,
       greatest(p.high - l.frontier, 0) AS lag,
       clock_timestamp() - e.ts AS oldest_unacked
FROM {ledgers} l
JOIN {groups} g ON g.id = l.group_id
JOIN {streams} s ON s.id = g.stream_id
JOIN {partitions} p ON p.stream_id = g.stream_id AND p.partition = l.partition
LEFT JOIN {events} e ON e.stream_id = g.stream_id AND e.partition = l.partition AND e.sequence = l.frontier + 1;

CREATE VIEW {dead_letters} AS
SELECT s.name AS stream, g.name AS "group", d.partition, d.sequence, e.id AS event_id, e.key, e.type,
       d.attempts, d.reason, d.rejected_at AS dead_lettered_at, e.metadata, e.payload
FROM {rejected} d
JOIN {groups} g ON g.id = d.group_id
JOIN {streams} s ON s.id = g.stream_id
JOIN {events} e ON e.stream_id = g.stream_id AND e.partition = d.partition AND e.sequence = d.sequence;
