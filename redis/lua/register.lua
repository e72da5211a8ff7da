-- Sets a field of a hash that has none.
-- KEYS: the hash
-- ARGV: field, value
return call('HSETNX', KEYS[1], ARGV[1], ARGV[2])
