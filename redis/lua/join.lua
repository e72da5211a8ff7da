-- Makes a group's part of a partition, if it is not there.
-- KEYS: meta, log, state
-- ARGV: group, start, attempts, ordered
local meta, log, state = unpack(KEYS)
local group, start = ARGV[1], ARGV[2]
if call('EXISTS', meta) == 0 then
  return lost('LOSTMETA', meta)
end
if call('HEXISTS', state, 'position') == 1 then
  return 0
end
local made = redis.pcall('XGROUP', 'CREATE', log, group, start, 'MKSTREAM')
if type(made) == 'table' and made.err then
  if string.sub(made.err, 1, 9) ~= 'BUSYGROUP' then
    return made
  end
  call('XGROUP', 'DESTROY', log, group)
  call('XGROUP', 'CREATE', log, group, start)
end
seek(log, group, start)
call('HSET', state, 'position', start, 'cursor', start, 'floor', start, 'start', start,
  'waits', NEVER, 'lapses', NEVER, 'sweep', 0, 'attempts', ARGV[3], 'ordered', ARGV[4])
return 1
