-- Opens everything from a sequence on again.
-- KEYS: meta, log, state, reasons, dead letters, whole leases
-- ARGV: group, first sequence
-- Returns how many deliveries that opened.
local meta, log, state, why, dead, whole = unpack(KEYS)
local group, first = ARGV[1], tonumber(ARGV[2])
local high = tonumber(call('HGET', meta, 'high'))
if not high then
  return lost('LOSTMETA', meta)
end
local kept = call('HMGET', state, 'position', 'cursor')
if not kept[1] then
  return lost('LOSTGROUP', state)
end
local position, cursor = tonumber(kept[1]), tonumber(kept[2])
local opened = min(cursor, high) - first + 1
if opened <= 0 then
  return 0
end
while true do
  local ids = {}
  for i, p in ipairs(call('XPENDING', log, group, first, '+', PAGE)) do
    ids[i] = sequence(p[1])
  end
  if #ids == 0 then
    break
  end
  drop(log, group, ids)
  forget(why, ids)
end
if first - 1 < position then
  position = first - 1
  seek(log, group, position)
end
call('UNLINK', whole)
call('ZREMRANGEBYSCORE', dead, first, '+inf')
call('HSET', state, 'position', position, 'floor', frontier(log, group, position))
return opened
