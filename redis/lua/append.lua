-- Appends a batch to a partition: all of it in one piece, or nothing.
-- KEYS: meta, log, the two generations of the IDs
-- ARGV: now, window in ms, expected sequence or '', 1 if the timestamps never fall; then the
--       IDs, all different, and then as many entries
-- Returns the sequence before; and place in the batch, sequence and entry of each event that
-- the partition holds already, or false if the expectation fails.
local meta, log = KEYS[1], KEYS[2]
local argv = ARGV
local BEFORE = 4 -- arguments
local n = (#argv - BEFORE) / 2
local TEXT = BEFORE + n

local state = call('HMGET', meta, 'high', 'latest', 'generation', 'since')
if not state[1] then
  return lost('LOSTMETA', meta)
end
local base, latest = tonumber(state[1]), state[2]
if base > 0 and call('EXISTS', log) == 0 then
  return lost('LOSTLOG', log)
end
local now = clock(argv[1])
local window = tonumber(argv[2])
local generation, since = tonumber(state[3]), tonumber(state[4])
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
    for i, found in ipairs(call('HMGET', key, unpack(argv, BEFORE + from, BEFORE + to))) do
      if found then
        held[from + i - 1] = found
      end
    end
  end
end
if not turn then
  look(ids)
end
if both and call('EXISTS', older) == 1 then
  look(older)
end

local duplicates, fresh = {}, {} -- fresh: the places of what is appended
for i = 1, n do
  if held[i] then
    duplicates[#duplicates + 1] = {i, tonumber(held[i]), call('XRANGE', log, held[i], held[i])[1] or false}
  else
    fresh[#fresh + 1] = i
  end
end
if #fresh == 0 then
  return {base, duplicates}
end
if argv[3] ~= '' and tonumber(argv[3]) ~= base then
  return {base, false}
end

local function timestamp(i)
  return string.match(argv[TEXT + i], '^-?%d+')
end

local high = base
if argv[4] == '1' and not (latest and before(timestamp(fresh[1]), latest)) then
  for _, i in ipairs(fresh) do
    high = high + 1
    call('XADD', log, high, 'e', argv[TEXT + i])
  end
  latest = timestamp(fresh[#fresh])
else
  for _, i in ipairs(fresh) do
    local ts = timestamp(i)
    high = high + 1
    if latest and before(ts, latest) then
      call('XADD', log, high, 'e', argv[TEXT + i], 'mx', latest)
    else
      call('XADD', log, high, 'e', argv[TEXT + i])
      latest = ts
    end
  end
end

if turn then
  call('UNLINK', ids)
  if not both then
    call('UNLINK', older)
  end
  generation, since = 1 - generation, now
  call('HSET', meta, 'generation', generation, 'since', since)
end
for from = 1, #fresh, PAGE do
  local names, at = {}, 0
  for i = from, min(#fresh, from + PAGE - 1) do
    names[at + 1], names[at + 2] = argv[BEFORE + fresh[i]], base + i
    at = at + 2
  end
  call('HSET', ids, unpack(names))
end
if turn or base == 0 then
  call('PEXPIRE', ids, 2 * window)
end
call('HSET', meta, 'high', high, 'latest', latest)
return {base, duplicates}
