-- Tells whether a fetch may find something in a partition, without changing anything.
-- KEYS: meta, state
-- ARGV: now
local high = tonumber(call('HGET', KEYS[1], 'high'))
if not high then
  return lost('LOSTMETA', KEYS[1])
end
local state = call('HMGET', KEYS[2], 'position', 'waits', 'lapses', 'ordered', 'cursor')
if not state[1] then
  return lost('LOSTGROUP', KEYS[2])
end
local now = clock(ARGV[1])
local some = tonumber(state[1]) < high or tonumber(state[2]) <= now or tonumber(state[3]) <= now
return (some or state[4] == '1') and 1 or 0
