-- Appends a batch to a partition: all of it in one piece, or nothing.
-- KEYS: meta, log, the two generations of the IDs
-- ARGV: now, window in ms, expected sequence or '', 1 if the timestamps never fall, 1 if the
--       IDs are UUIDv7s that rise; and then the entries, no two with the same ID
-- Returns the sequence before; and place in the batch, sequence and entry of each event that
-- the partition holds already, or false if the expectation fails.
--
-- UUIDv7s sort by when they were made, and most of them come in that order. One that is above
-- all before it is kept in the log alone: any other entry says what the highest is, which
-- therefore never falls from entry to entry, so that an ID is found by halves. The others
-- are kept in hashes, two that take turns.
local meta, log = KEYS[1], KEYS[2]
local argv = ARGV
local BEFORE = 5   -- arguments
local AHEAD = 1000 -- ms: an ID from beyond is not made the highest, lest all others are late for long
local n = #argv - BEFORE

local state = call('HMGET', meta, 'high', 'latest', 'top', 'far', 'generation', 'since')
if not state[1] then
  return lost('LOSTMETA', meta)
end
local base, latest = tonumber(state[1]), state[2]
local top, far = state[3] or '', state[4] or '' -- far: the highest that lay beyond
if base > 0 and call('EXISTS', log) == 0 then
  return lost('LOSTLOG', log)
end
local now = clock(argv[1])
local window = tonumber(argv[2])

local names = {} -- of the batch, by place
local function name(i)
  names[i] = names[i] or identifier(argv[BEFORE + i])
  return names[i]
end

local generation, since = tonumber(state[5]), tonumber(state[6])
local turn = now >= since + window
local ids, older = KEYS[3 + generation], KEYS[4 - generation]
local both = not turn or now < since + 2 * window
if turn then -- what is the older one now is to be the younger one, emptied
  ids, older = older, ids
end

local held = {} -- place → sequence
local function look(key)
  for from = 1, n, PAGE do
    local to = min(n, from + PAGE - 1)
    for i, found in ipairs(call('HMGET', key, unpack(names, from, to))) do
      if found then
        held[from + i - 1] = tonumber(found)
      end
    end
  end
end

-- at returns the first entry from a sequence on: its sequence, its ID, and the highest up to it.
local function at(place)
  local entry = call('XRANGE', log, place, '+', 'COUNT', 1)[1]
  if entry then
    return sequence(entry[1]), identity(entry)
  end
end

-- search returns the first entry up to which the highest is id or above, as at does.
local function search(id, low)
  local up, step = base, 1 -- most are near the end
  while up - step >= low do
    local place, _, highest = at(up - step)
    if place and highest < id then
      low = place + 1
      break
    end
    up, step = up - step, 2 * step
  end
  while low < up do
    local middle = floor((low + up) / 2)
    local place, _, highest = at(middle)
    if place and highest < id then
      low = place + 1
    else
      up = middle
    end
  end
  return at(up)
end

-- find returns the sequence of an ID, which is not above the highest, if the log holds it.
-- What comes one after another is found one after another.
local previous, place, own, highest = nil, nil, nil, nil
local function find(id)
  if not place or id < previous then
    place, own, highest = search(id, 1)
  elseif highest < id then
    place, own, highest = at(place + 1)
    if place and highest < id then
      place, own, highest = search(id, place + 1)
    end
  end
  previous = id
  return own == id and place or nil
end

local rising = argv[4] == '1' and not (latest and before(timestamp(argv[BEFORE + 1]), latest))
local ordered = argv[5] == '1' and name(1) > top and name(1) > far and made(name(n)) <= now + AHEAD
local duplicates = {}
if not ordered then
  for i = 1, n do
    name(i)
  end
  if not turn then
    look(ids)
  end
  if both and call('EXISTS', older) == 1 then
    look(older)
  end
  for i = 1, n do
    if not held[i] and made(names[i]) and names[i] <= top then
      held[i] = find(names[i])
    end
    if held[i] then
      duplicates[#duplicates + 1] = {i, held[i], call('XRANGE', log, held[i], held[i])[1] or false}
    end
  end
end
if #duplicates == n then
  return {base, duplicates}
end
if argv[3] ~= '' and tonumber(argv[3]) ~= base then
  return {base, false}
end

local high, kept = base, {} -- kept: IDs and sequences for the hash
local last = n -- the place of the last that is appended
-- add appends an entry, with what it has to say of those before it.
local function add(i)
  local entry, id = argv[BEFORE + i], name(i)
  local later, higher -- timestamp and ID from before, if above its own
  if not rising then
    local time = timestamp(entry)
    if latest and before(time, latest) then
      later = latest
    else
      latest = time
    end
  end
  local when = made(id)
  if when and id > top and when <= now + AHEAD then
    top = id
  else
    if when or top ~= '' then
      higher = top
    end
    if when and id > top and id > far then
      far = id
    end
    kept[#kept + 1], kept[#kept + 2] = id, high
  end
  if later and higher then
    call('XADD', log, high, 'e', entry, 'mx', later, 'mi', higher)
  elseif later then
    call('XADD', log, high, 'e', entry, 'mx', later)
  elseif higher then
    call('XADD', log, high, 'e', entry, 'mi', higher)
  else
    call('XADD', log, high, 'e', entry)
  end
end

if ordered and rising then
  for i = BEFORE + 1, BEFORE + n do
    high = high + 1
    call('XADD', log, high, 'e', argv[i])
  end
  top = name(n)
else
  for i = 1, n do
    if not held[i] then
      high, last = high + 1, i
      add(i)
    end
  end
end
if rising then
  latest = timestamp(argv[BEFORE + last])
end

if #kept > 0 then
  if turn then
    call('UNLINK', ids)
    if not both then
      call('UNLINK', older)
    end
    call('HSET', meta, 'generation', 1 - generation, 'since', now)
  end
  local born = turn or call('EXISTS', ids) == 0
  for from = 1, #kept, 2 * PAGE do
    call('HSET', ids, unpack(kept, from, min(#kept, from + 2 * PAGE - 1)))
  end
  if born then
    call('PEXPIRE', ids, 2 * window)
  end
  call('HSET', meta, 'far', far)
end
call('HSET', meta, 'high', high, 'latest', latest, 'top', top)
return {base, duplicates}
