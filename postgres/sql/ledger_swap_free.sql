UPDATE {ledgers} SET version = $4::bigint, cursor = $5::bigint, frontier = $6::bigint, due = $7::bigint, held = $8::bigint, ledger = $9::bytea
WHERE group_id = $1::bigint AND version = $3::bigint AND partition = (
    SELECT l.partition FROM {ledgers} l
    WHERE l.group_id = $1::bigint AND l.partition = $2::integer AND l.version = $3::bigint
    FOR UPDATE SKIP LOCKED)
RETURNING partition
