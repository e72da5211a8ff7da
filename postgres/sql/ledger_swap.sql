UPDATE {ledgers} SET version = $4::bigint, cursor = $5::bigint, frontier = $6::bigint, due = $7::bigint, held = $8::bigint, ledger = $9::bytea
WHERE group_id = $1::bigint AND partition = $2::integer AND version = $3::bigint
RETURNING partition
