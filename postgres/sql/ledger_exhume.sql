DELETE FROM {rejected}
WHERE group_id = $1::bigint AND partition = $2::integer
  AND (sequence >= $3::bigint AND $3::bigint > 0 OR sequence = ANY ($4::bigint[]))
