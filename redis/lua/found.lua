-- Makes a partition, if it is not there. A log that is there goes on where it ends.
-- KEYS: meta, log
-- ARGV: now
local meta, log = unpack(KEYS)
if call('EXISTS', meta) == 1 then
  return 0
end
local high, latest, top = 0, nil, ''
local last = call('XREVRANGE', log, '+', '-', 'COUNT', 1)[1]
if last then
  high = sequence(last[1])
  latest, top = select(2, times(last)), select(2, identity(last))
end
call('HSET', meta, 'high', high, 'top', top, 'stray', top, 'generation', 0, 'since', (clock(ARGV[1])))
if latest then
  call('HSET', meta, 'latest', latest)
end
return 1
