-- Opens single deliveries again.
-- KEYS: meta, log, state, reasons, dead letters, whole leases
-- ARGV: group, and the sequences, ascending
-- Returns how many deliveries that opened.
local meta, log, state, why, dead, whole = unpack(KEYS)
local group = ARGV[1]
if call('EXISTS', meta) == 0 then
  return lost('LOSTMETA', meta)
end
local kept = call('HMGET', state, 'position', 'cursor')
if not kept[1] then
  return lost('LOSTGROUP', state)
end
local position, cursor = tonumber(kept[1]), tonumber(kept[2])
local again, opened = {}, 0
for i = 2, #ARGV do
  local s = tonumber(ARGV[i])
  if s <= position then
    again[#again + 1] = s
  end
  if s <= cursor then
    opened = opened + 1 -- what lies between is still to come
  end
end
parts(again, function(part)
  claim(log, group, WAITING, part, 0, 0, 'FORCE', 'JUSTID')
  forget(why, part)
  for _, s in ipairs(part) do
    call('ZREMRANGEBYSCORE', dead, s, s)
  end
end)
if #again > 0 then
  call('UNLINK', whole)
  call('HSET', state, 'waits', 0, 'floor', frontier(log, group, position))
end
return opened
