-- Tells why a partition's group is not there, and makes it again where it can: just above
-- the last known frontier, below which nothing was open.
-- KEYS: meta, log, state, reasons, dead letters, whole leases
-- ARGV: group
-- Returns 1 and where the group starts again, or 0 if it is there.
local meta, log, state, why, dead, whole = unpack(KEYS)
local group = ARGV[1]
local high = tonumber(call('HGET', meta, 'high'))
if not high then
  return lost('LOSTMETA', meta)
end
local known = call('HMGET', state, 'floor', 'start')
if not known[1] then
  return lost('LOSTGROUP', state)
end
if call('EXISTS', log) == 0 then
  if high > 0 then
    return lost('LOSTLOG', log)
  end
else
  for _, g in ipairs(call('XINFO', 'GROUPS', log)) do
    if g[2] == group then
      return {0, 0}
    end
  end
end
local start = known[1]
call('XGROUP', 'CREATE', log, group, start, 'MKSTREAM')
seek(log, group, start)
call('HSET', state, 'position', start, 'waits', NEVER, 'lapses', NEVER)
call('ZREMRANGEBYSCORE', dead, '(' .. start, '+inf')
call('UNLINK', why, whole)
return {1, tonumber(start)}
