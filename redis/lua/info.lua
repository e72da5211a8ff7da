-- Describes a group's part of a partition.
-- KEYS: meta, log, state, dead letters
-- ARGV: group, now
-- Returns the time in µs; high watermark, position, cursor, frontier; how many deliveries are
-- pending, and how many of them wait; how many leases have run out among those up to a
-- sequence, and that sequence, or 0 if these are all; the number of dead letters; and the
-- timestamp of the first event above the frontier.
local meta, log, state, dead = unpack(KEYS)
local group = ARGV[1]
local high = tonumber(call('HGET', meta, 'high'))
if not high then
  return lost('LOSTMETA', meta)
end
local kept = call('HMGET', state, 'position', 'cursor', 'lapses')
if not kept[1] then
  return lost('LOSTGROUP', state)
end
local position, cursor = tonumber(kept[1]), tonumber(kept[2])
local summary = call('XPENDING', log, group)
local total, waiting = summary[1], 0
for _, consumer in ipairs(total > 0 and summary[4] or {}) do
  if consumer[1] == WAITING then
    waiting = tonumber(consumer[2])
  end
end
local ended, upto = 0, 0
if total > waiting and tonumber(kept[3]) <= clock(ARGV[2]) then
  ended, upto = expired(log, group, ARGV[2], '-')
end
local first = frontier(log, group, position)
local oldest = ''
if first < high then
  local entry = call('XRANGE', log, first + 1, '+', 'COUNT', 1)[1]
  oldest = entry and times(entry) or ''
end
return {micros(ARGV[2]), high, position, cursor, first, total, waiting, ended, upto, call('ZCARD', dead), oldest}
