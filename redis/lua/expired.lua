-- Goes on counting the leases that have run out.
-- KEYS: log
-- ARGV: group, now, sequence to go on behind
-- Returns how many, and up to which sequence, or 0 if that is all.
return {expired(KEYS[1], ARGV[1], ARGV[2], '(' .. ARGV[3])}
