-- Starts a group over in a partition.
-- KEYS: meta, log, state, reasons, dead letters, whole leases
-- ARGV: group, start, attempts, ordered
local meta, log, state, why, dead, whole = unpack(KEYS)
local group, start = ARGV[1], ARGV[2]
local high = tonumber(call('HGET', meta, 'high'))
if not high then
  return lost('LOSTMETA', meta)
end
if call('EXISTS', log) == 1 then
  call('XGROUP', 'DESTROY', log, group)
elseif high > 0 then
  return lost('LOSTLOG', log)
end
call('XGROUP', 'CREATE', log, group, start, 'MKSTREAM')
seek(log, group, start)
call('HSET', state, 'position', start, 'cursor', start, 'floor', start,
  'waits', NEVER, 'lapses', NEVER, 'sweep', 0, 'attempts', ARGV[3], 'ordered', ARGV[4])
call('UNLINK', why, dead, whole)
return 1
