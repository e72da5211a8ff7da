-- Finds the first event, by sequence, whose timestamp is that or later: the latest
-- timestamp up to an event, which its entry tells, never falls.
-- KEYS: meta, log
-- ARGV: timestamp in µs
-- Returns its sequence, or one more than the last.
local meta, log = unpack(KEYS)
local high = tonumber(call('HGET', meta, 'high'))
if not high then
  return lost('LOSTMETA', meta)
end
local low, top = 1, high + 1
while low < top do
  local middle = floor((low + top) / 2)
  local entry = call('XRANGE', log, middle, '+', 'COUNT', 1)[1]
  if not entry or not before(select(2, times(entry)), ARGV[1]) then
    top = middle
  else
    low = max(middle, sequence(entry[1])) + 1
  end
end
return low
