SELECT l.partition, l.start FROM {ledgers} l WHERE l.group_id = $1::bigint AND l.partition = ANY ($2::integer[])
