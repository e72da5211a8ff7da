-- Leases what is due in a partition: what was delivered before, the lowest first, and
-- then new events.
-- KEYS: meta, log, state, reasons, dead letters, whole leases
-- ARGV: group, consumer, token, how many, lease in ms, now
-- Returns when the leases end in ms; attempt, reason, ID and event of each redelivery; the
-- events that are delivered for the first time; and the sequence of the first of these, or all
-- their IDs if they are not in a row. The lists are flat: a table within a table costs the
-- server more than all else that it does for an event.
local meta, log, state, why, dead, whole = unpack(KEYS)
local group, consumer, token, left = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local now, server = clock(ARGV[6])
local due = now + ARGV[5]
local DEAD = 1000      -- dead letters of one fetch at most
local SWEEP = 3600000  -- ms between looks for consumers that are gone,
local GONE = 86400000  -- as are those that did nothing for so long

local high = tonumber(call('HGET', meta, 'high'))
if not high then
  return lost('LOSTMETA', meta)
end
local kept = call('HMGET', state, 'position', 'cursor', 'waits', 'lapses', 'attempts', 'ordered', 'sweep')
if not kept[1] then
  return lost('LOSTGROUP', state)
end
local position, cursor, waits, lapses = tonumber(kept[1]), tonumber(kept[2]), tonumber(kept[3]), tonumber(kept[4])
local attempts, ordered, sweep = tonumber(kept[5]), kept[6] == '1', tonumber(kept[7])
local changes = {}

local function change(name, value)
  changes[#changes + 1] = name
  changes[#changes + 1] = value
end

-- pending lists deliveries that are due in that many ms, each with whether it is for
-- sure: the command takes the time by itself, maybe later than this script did.
local function pending(from, count, ahead, who)
  local list = call('XPENDING', log, group, 'IDLE', HORIZON + server - now - ahead, from, '+', count, unpack({who}))
  local drift = millis() - server
  for _, p in ipairs(list) do
    p.sure = p[3] - drift >= HORIZON + server - now - ahead
  end
  return list
end

local spent, taken, order = {}, {}, {} -- to reject; by attempt, to hand out; in order
local broken = {}                      -- the tokens of the leases that have ended so

local function breaks(p)
  if p[2] ~= WAITING then
    broken[floor(p[4] / ATTEMPTS)] = true
  end
end

-- take notes that a delivery is to be handed out, or rejected if it has been often
-- enough; or returns false if no more may be.
local function take(p)
  local s, attempt = sequence(p[1]), p[4] % ATTEMPTS
  if attempt >= attempts then
    if #spent == DEAD then
      return false
    end
    spent[#spent + 1] = {s, attempt}
    breaks(p)
    return true
  end
  if left == 0 then
    return false
  end
  breaks(p)
  local ids = taken[attempt + 1] or {}
  taken[attempt + 1] = ids
  ids[#ids + 1] = s
  order[#order + 1] = {attempt + 1, s}
  left = left - 1
  return true
end

-- redeliver takes what is due, and returns whether that was all.
local function redeliver(who)
  local from = '-'
  while true do
    local count = min(PAGE, max(left, 16))
    local list = pending(from, count, 0, who)
    for _, p in ipairs(list) do
      if p.sure and not take(p) then
        return false
      end
    end
    if #list < count then
      return true
    end
    from = '(' .. list[#list][1]
  end
end

-- busy tells whether a lease is in force.
local function busy()
  local from, need = '-', HORIZON + server - now
  while true do
    local list = call('XPENDING', log, group, from, '+', PAGE)
    local drift = millis() - server
    for _, p in ipairs(list) do
      if p[2] ~= WAITING and p[3] - drift < need then
        return true
      end
    end
    if #list < PAGE then
      return false
    end
    from = '(' .. list[#list][1]
  end
end

-- inorder takes what is open up to the first that is not due, and returns whether
-- that was all.
local function inorder()
  local from, need = '-', HORIZON + server - now
  while true do
    local list = call('XPENDING', log, group, from, '+', PAGE)
    local drift = millis() - server
    for _, p in ipairs(list) do
      if p[3] - drift < need or not take(p) then
        return false
      end
    end
    if #list < PAGE then
      return true
    end
    from = '(' .. list[#list][1]
  end
end

-- quiet returns a time up to which nothing comes due: not the latest, but far ahead.
local function quiet(who)
  for _, ahead in ipairs({60000, 15000, 4000, 1000, 250, 60}) do
    if #pending('-', 1, ahead, who) == 0 then
      return now + ahead
    end
  end
  return now
end

local function reasons(list)
  local found = {}
  parts(list, function(part)
    for i, reason in ipairs(call('HMGET', why, unpack(part))) do
      found[part[i]] = reason or ''
    end
  end)
  return found
end

-- reject files the dead letters of what has been handed out often enough.
local function reject()
  local ids, letters = {}, {}
  for i, s in ipairs(spent) do
    ids[i] = s[1]
  end
  local found = reasons(ids)
  for i, s in ipairs(spent) do
    local reason = found[s[1]]
    letters[i] = {s[1], s[2], reason ~= '' and reason or 'lease expired on the last attempt'}
  end
  bury(dead, letters, now)
  drop(log, group, ids)
  forget(why, ids)
  change('floor', frontier(log, group, position))
end

-- event is what an entry holds; nothing if it is none of ours.
local function event(entry)
  local fields = entry[2]
  return fields[1] == 'e' and fields[2] or ''
end

-- again hands out what was taken.
local function again()
  local ids, entries, out = {}, {}, {}
  for i, o in ipairs(order) do
    ids[i] = o[2]
  end
  local found = reasons(ids)
  for attempt, list in pairs(taken) do
    parts(list, function(part)
      for _, entry in ipairs(claim(log, group, consumer, part, due, token * ATTEMPTS + attempt)) do
        if entry then
          entries[sequence(entry[1])] = entry
        end
      end
    end)
  end
  local n = 0
  for _, o in ipairs(order) do
    local entry = entries[o[2]]
    if entry then
      out[n + 1], out[n + 2], out[n + 3], out[n + 4] = o[1], found[o[2]], entry[1], event(entry)
      n = n + 4
    end
  end
  return out
end

-- offer hands out new events, and returns them with where they are. Who has taken events
-- out of the log does not stop it.
local function offer()
  local first, out, ids, size = position + 1, {}, nil, 0
  while left > 0 and position < high do
    local n = min(left, high - position, PAGE)
    local args = {'XCLAIM', log, group, consumer, 0}
    for i = 1, n do
      args[5 + i] = position + i
    end
    args[n + 6], args[n + 7], args[n + 8], args[n + 9] = 'TIME', stamp(due), 'RETRYCOUNT', token * ATTEMPTS + 1
    args[n + 10], args[n + 11] = 'FORCE', 'JUSTID'
    call(unpack(args))
    local entries = call('XRANGE', log, position + 1, position + n)
    if #entries < n and not ids then
      ids = {}
      for i = 1, size do
        ids[i] = text(first + i - 1) .. '-0'
      end
    end
    for i = 1, #entries do
      local entry = entries[i]
      out[size + i] = event(entry)
      if ids then
        ids[size + i] = entry[1]
      end
    end
    size, position, left = size + #entries, position + n, left - #entries
    if #entries == 0 then
      local after = call('XRANGE', log, position + 1, '+', 'COUNT', 1)[1]
      position = after and sequence(after[1]) - 1 or high
    end
  end
  if position == high and cursor > high then
    position = cursor -- it waits for what is not there yet
  end
  return out, ids or first
end

-- tidy removes consumers that are gone: a process may take a name of its own each
-- time that it starts.
local function tidy()
  for _, c in ipairs(call('XINFO', 'CONSUMERS', log, group)) do
    local about = {}
    for i = 1, #c, 2 do
      about[c[i]] = c[i + 1]
    end
    if about.pending == 0 and about.idle > GONE and about.name ~= WAITING then
      call('XGROUP', 'DELCONSUMER', log, group, about.name)
    end
  end
end

local all, scanned = true, nil
if ordered then
  if busy() then
    return {0, {}, {}, {}}
  end
  all = inorder()
elseif lapses <= now then
  scanned = 'all'
  all = redeliver()
elseif waits <= now then
  scanned = WAITING
  all = redeliver(WAITING)
end

if #spent > 0 then
  reject()
end
local redelivered, fresh, places = {}, {}, {}
if #order > 0 then
  redelivered = again()
end
for lease in pairs(broken) do
  call('HDEL', whole, text(lease))
end
local before = position
if (all or not ordered) and left > 0 and (position < high or cursor > position) then
  fresh, places = offer()
end
if #fresh > 1 and type(places) == 'number' then
  call('HSET', whole, ARGV[3], text(places) .. ':' .. text(places + #fresh - 1))
end
if position ~= before then
  seek(log, group, position)
  change('position', position)
  if position > cursor then
    change('cursor', position)
  end
end
if all and (ordered or scanned == 'all') then
  lapses = quiet()
  change('waits', lapses)
elseif all and scanned then
  change('waits', quiet(WAITING))
end
if #redelivered + #fresh > 0 then
  lapses = min(lapses, due)
end
if lapses ~= tonumber(kept[4]) then
  change('lapses', lapses)
end
if sweep <= now and (#redelivered + #fresh > 0 or scanned) then
  tidy()
  change('sweep', now + SWEEP)
end
if #changes > 0 then
  -- A server without memory refuses what begins with a write that needs some; where there
  -- is nothing but bounds to note, that is no reason to fail.
  local note = (#spent + #redelivered + #fresh > 0 or position ~= before) and call or redis.pcall
  note('HSET', state, unpack(changes))
end
return {due, redelivered, fresh, places}
