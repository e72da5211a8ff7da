-- Makes leases of a partition last for a while from now.
-- KEYS: log, state
-- ARGV: group, now, lease in ms; then token, first and last sequence of each run
-- Returns when they end in ms, and the places, counted through all runs, of those that are
-- no longer held.
local log, state = unpack(KEYS)
local group = ARGV[1]
local due = clock(ARGV[2]) + ARGV[3]
local WIDTH, FIRST = 3, 4

local lapses = tonumber(call('HGET', state, 'lapses'))
if not lapses then
  return lost('LOSTGROUP', state)
end

local stale, places, renewed = {}, 0, false

-- extend renews those of a part of a run that are held under the token.
local function extend(token, from, to)
  local alike, next = {}, from
  local function without(s)
    while next < s do
      stale[#stale + 1] = places + next - from + 1
      next = next + 1
    end
  end
  for _, p in ipairs(call('XPENDING', log, group, from, to, to - from + 1)) do
    if floor(p[4] / ATTEMPTS) == token then
      local s, who = sequence(p[1]), p[2] .. ' ' .. text(p[4])
      without(s)
      next = s + 1
      alike[who] = alike[who] or {consumer = p[2], count = p[4], ids = {}}
      table.insert(alike[who].ids, s)
    end
  end
  without(to + 1)
  places = places + to - from + 1
  for _, a in pairs(alike) do
    claim(log, group, a.consumer, a.ids, due, a.count, 'JUSTID')
    renewed = true
  end
end

for at = FIRST, #ARGV, WIDTH do
  local token, first, last = tonumber(ARGV[at]), tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  for from = first, last, PAGE do
    extend(token, from, min(last, from + PAGE - 1))
  end
end
if renewed and due < lapses then
  call('HSET', state, 'lapses', due)
end
return {due, stale}
