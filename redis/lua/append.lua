-- Appends a batch to a partition: all of it in one piece, or nothing.
-- KEYS: meta, log, the two generations of the IDs, the late batches
-- ARGV: now, window in ms, expected sequence or '', 1 if the timestamps never fall, 1 if the
--       IDs are UUIDv7s that rise; and then the entries, no two with the same ID
-- Returns the sequence before; and place in the batch, sequence and entry of each event that
-- the partition holds already, or false if the expectation fails.
--
-- UUIDv7s sort by when they were made, and most of them come in that order. How an ID is kept:
-- - One above all before it is in the log alone. Any other entry says what the highest is,
--   which therefore never falls from entry to entry, so that it is found by halves.
-- - A batch that rises, and is late as a whole, is one member of a sorted set: its IDs lie between two
--   of the above, and no other late ones among them.
-- - The others are kept in hashes, two that take turns.
local meta, log, late = KEYS[1], KEYS[2], KEYS[5]
local argv = ARGV
local BEFORE = 5   -- arguments
local AHEAD = 1000 -- ms: an ID from beyond is not made the highest, lest all others are late for long
local n = #argv - BEFORE

local state = call('HMGET', meta, 'high', 'latest', 'top', 'stray', 'generation', 'since')
if not state[1] then
  return lost('LOSTMETA', meta)
end
local base, latest = tonumber(state[1]), state[2]
local top, stray = state[3] or '', state[4] or '' -- highest in the log; in the hashes
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

local find = finder(log, base)

-- between reports whether the batch can be a late one.
local function between()
  if n == 1 or name(n) > top or name(1) <= stray or made(name(1)) < now - window then
    return false
  end
  local _, next = find(name(1))
  if not next or next <= name(n) then
    return false
  end
  local first = batch(late, name(1))
  return not first or first > name(n)
end

-- recognise finds out what is held.
local function recognise()
  for i = 1, n do
    name(i)
  end
  if not turn then
    look(ids)
  end
  if both and call('EXISTS', older) == 1 then
    look(older)
  end
  local lates = call('EXISTS', late) == 1
  for i = 1, n do
    if not held[i] and made(names[i]) and names[i] <= top then
      held[i] = find(names[i]) or lates and findlate(log, late, names[i])
    end
  end
end

local rising = argv[4] == '1' and not (latest and before(timestamp(argv[BEFORE + 1]), latest))
local ordered, asone = false, false -- all are above the highest; all lie between two that were it
if argv[5] == '1' then
  ordered = name(1) > top and name(1) > stray and made(name(n)) <= now + AHEAD
  asone = not ordered and between()
end
local duplicates = {}
if not ordered and not asone then
  recognise()
  for i = 1, n do
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

-- above notes where an ID is kept, and returns the highest if that is above it.
local function above(id)
  if asone then
    return top
  end
  local when = made(id)
  if when and id > top and when <= now + AHEAD then
    top = id
    return nil
  end
  if when and id > stray then
    stray = id
  end
  kept[#kept + 1], kept[#kept + 2] = id, high
  return (when or top ~= '') and top or nil
end

-- add appends an entry, with what it has to say of those before it.
local function add(i)
  local entry = argv[BEFORE + i]
  local later -- the latest timestamp, if above its own
  if not rising then
    local time = timestamp(entry)
    if latest and before(time, latest) then
      later = latest
    else
      latest = time
    end
  end
  local higher = above(name(i))
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

if asone then
  call('ZADD', late, 0, written(name(1), name(n), base + 1, n))
  call('ZREMRANGEBYLEX', late, '-', '(' .. prefix(max(0, now - 2 * window)))
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
  call('HSET', meta, 'stray', stray)
end
call('HSET', meta, 'high', high, 'latest', latest, 'top', top)
return {base, duplicates}
