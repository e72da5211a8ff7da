-- Settles deliveries of a partition, each by itself.
-- KEYS: log, state, reasons, dead letters, whole leases
-- ARGV: group, now; then token, first and last sequence, outcome, delay in ms and reason
--       of each run of deliveries that are settled alike
-- Returns the places, counted through all runs, of those that are no longer held.
local log, state, why, dead, whole = unpack(KEYS)
local group = ARGV[1]
local now = clock(ARGV[2])
local WIDTH, FIRST = 6, 3

local kept = call('HMGET', state, 'position', 'attempts', 'waits')
if not kept[1] then
  return lost('LOSTGROUP', state)
end
local position, attempts, waits = tonumber(kept[1]), tonumber(kept[2]), tonumber(kept[3])

-- held returns those of the run that are held under the token, with their attempts,
-- and notes the places of the others.
local stale, places = {}, 0
local function held(token, first, last)
  local ids, tries, n, next = {}, {}, 0, first
  local low, high = token * ATTEMPTS, (token + 1) * ATTEMPTS
  local function without(to)
    while next < to do
      stale[#stale + 1] = places + next - first + 1
      next = next + 1
    end
  end
  for from = first, last, PAGE do
    local to = min(last, from + PAGE - 1)
    local list = call('XPENDING', log, group, from, to, to - from + 1)
    local full = #list == to - from + 1 -- so that the i-th is known without its ID
    for i = 1, #list do
      local count = list[i][4]
      if count > low and count < high then
        local s = full and from + i - 1 or sequence(list[i][1])
        if s > next then
          without(s)
        end
        n, next = n + 1, s + 1
        ids[n], tries[n] = s, count - low
      end
    end
  end
  without(last + 1)
  places = places + last - first + 1
  return ids, tries
end

-- untouched ends the deliveries of a run, if they are the first of a lease that is whole, and
-- returns whether they were: then they are held, and on their first attempt.
local function untouched(token, first, last)
  local from, to = string.match(call('HGET', whole, token) or '', '^(%d+):(%d+)$')
  if not from or tonumber(from) ~= first or tonumber(to) < last then
    return false
  end
  local ids = {}
  for i = 1, last - first + 1 do
    ids[i] = first + i - 1
  end
  if drop(log, group, ids) < #ids then
    return false -- the group is not what it was, which the others will find
  end
  if tonumber(to) == last then
    call('HDEL', whole, token)
  else
    call('HSET', whole, token, text(last + 1) .. ':' .. to)
  end
  places = places + #ids
  return true
end

-- clear drops the reasons of what is over: only a later attempt has one from before.
local function clear(ids, tries)
  local again = {}
  for i = 1, #tries do
    if tries[i] > 1 then
      again[#again + 1] = ids[i]
    end
  end
  forget(why, again)
end

-- finish ends deliveries, with dead letters if there is a reason.
local function finish(ids, tries, reason)
  if reason then
    local letters = {}
    for i, s in ipairs(ids) do
      letters[i] = {s, tries[i], reason}
    end
    bury(dead, letters, now)
  end
  drop(log, group, ids)
  clear(ids, tries)
end

-- wait gives deliveries back, which are due then and have had so many attempts less.
local function wait(ids, tries, due, less)
  local alike = {}
  for i, s in ipairs(ids) do
    local list = alike[tries[i]] or {}
    alike[tries[i]] = list
    list[#list + 1] = s
  end
  for attempt, list in pairs(alike) do
    parts(list, function(part)
      claim(log, group, WAITING, part, due, attempt - less, 'JUSTID')
    end)
    waits = min(waits, due)
  end
end

-- explain keeps the reason for deliveries that wait.
local function explain(ids, reason)
  if reason == '' then
    return forget(why, ids)
  end
  parts(ids, function(part)
    local args = {}
    for i, s in ipairs(part) do
      args[2 * i - 1], args[2 * i] = s, reason
    end
    call('HSET', why, unpack(args))
  end)
end

-- nack gives back what may be tried again, and rejects the rest.
local function nack(ids, tries, delay, reason)
  local waiting, waited, spent, last = {}, {}, {}, {}
  for i, s in ipairs(ids) do
    if tries[i] >= attempts then
      spent[#spent + 1], last[#last + 1] = s, tries[i]
    else
      waiting[#waiting + 1], waited[#waited + 1] = s, tries[i]
    end
  end
  finish(spent, last, reason)
  wait(waiting, waited, delay == 0 and 0 or now + delay, 0)
  explain(waiting, reason)
end

local function settle(token, first, last, outcome, delay, reason)
  if outcome == ACK and last > first and untouched(token, first, last) then
    return
  end
  local ids, tries = held(tonumber(token), first, last)
  if #ids > 0 then
    call('HDEL', whole, token)
  end
  if outcome == ACK then
    finish(ids, tries)
  elseif outcome == REJECT then
    finish(ids, tries, reason)
  elseif outcome == NACK then
    nack(ids, tries, tonumber(delay), reason)
  else
    wait(ids, tries, 0, 1)
  end
end

for at = FIRST, #ARGV, WIDTH do
  local token, first, last, outcome, delay, reason = unpack(ARGV, at, at + WIDTH - 1)
  settle(token, tonumber(first), tonumber(last), outcome, delay, reason)
end
if #stale < places then
  call('HSET', state, 'waits', waits, 'floor', frontier(log, group, position))
end
return stale
