-- What the scripts share; it stands before each of them. docs/adr/0009-redis-native.md
-- says how a delivery is kept in a pending entry.

local call = redis.call
local floor, min, max = math.floor, math.min, math.max

local HORIZON = 315360000000 -- ms: due time = delivery time + HORIZON
local ATTEMPTS = 1048576     -- delivery count = token * ATTEMPTS + attempt
local WAITING = '\0waiting'  -- the consumer of what nobody holds
local NEVER = 9007199254740991
local PAGE = 1000            -- entries handled by one command

local ACK, NACK, REJECT = '1', '2', '3' -- outcomes; the other is a release

-- text is what an integer looks like: tostring would round it.
local function text(n)
  return string.format('%.0f', n)
end

local function millis()
  local t = call('TIME')
  return t[1] * 1000 + floor(t[2] / 1000)
end

-- clock returns the time in ms, and Redis' own, which differs in tests alone.
local function clock(override)
  local server = millis()
  if override == '' then
    return server, server
  end
  return floor(override / 1000), server
end

-- micros is the time in µs, as text.
local function micros(override)
  if override ~= '' then
    return override
  end
  local t = call('TIME')
  return text(t[1] * 1000000 + t[2])
end

-- stamp is the delivery time of what is due then; 0 is at once, by any clock.
local function stamp(due)
  return due == 0 and 0 or due - HORIZON
end

local function sequence(id)
  return tonumber(string.sub(id, 1, string.find(id, '-', 1, true) - 1))
end

local function timestamp(event)
  return string.match(event, '^-?%d+')
end

-- identifier is the ID in what an entry holds.
local function identifier(event)
  return string.match(event, '^-?%d+%z([^%z]*)')
end

-- made returns when a UUIDv7 was made, in ms; nil if the ID is none. It is in lower case
-- alone that they sort alike everywhere.
local function made(id)
  if #id ~= 36 or string.byte(id, 15) ~= 55 or string.find(id, '[^-0-9a-f]') then
    return nil
  end
  local first, second = string.match(id, '^(%x%x%x%x%x%x%x%x)%-(%x%x%x%x)%-%x%x%x%x%-%x%x%x%x%-%x+$')
  return first and tonumber(first .. second, 16)
end

-- fields returns the event that an entry holds, the latest timestamp up to it and the highest
-- UUIDv7 up to it, each of these if it is said not to be the event's own.
local function fields(entry)
  local found = {}
  for i = 1, #entry[2], 2 do
    found[entry[2][i]] = entry[2][i + 1]
  end
  return found.e, found.mx, found.mi
end

-- times returns the timestamp of an entry, and the latest up to it.
local function times(entry)
  local event, latest = fields(entry)
  local own = event and timestamp(event)
  return own, latest or own
end

-- identity returns the ID of an entry, and the highest UUIDv7 up to it, or ''.
local function identity(entry)
  local event, _, highest = fields(entry)
  local own = event and identifier(event) or ''
  return own, highest or made(own) and own or ''
end

-- parts calls f with the list's elements, in parts that fit one command.
local function parts(list, f)
  if #list <= PAGE then
    if #list > 0 then
      f(list)
    end
    return
  end
  for at = 1, #list, PAGE do
    f({unpack(list, at, min(#list, at + PAGE - 1))})
  end
end

-- claim makes the entries pending for the consumer, all alike.
local function claim(log, group, consumer, ids, due, count, ...)
  local args = {'XCLAIM', log, group, consumer, 0}
  for i = 1, #ids do
    args[5 + i] = ids[i]
  end
  local n = #args
  args[n + 1], args[n + 2], args[n + 3], args[n + 4] = 'TIME', stamp(due), 'RETRYCOUNT', count
  for i = 1, select('#', ...) do
    args[n + 4 + i] = (select(i, ...))
  end
  return call(unpack(args))
end

-- drop ends the deliveries, and returns how many there were.
local function drop(log, group, ids)
  local n = 0
  parts(ids, function(part)
    n = n + call('XACK', log, group, unpack(part))
  end)
  return n
end

-- bury files dead letters: {sequence, attempts, reason} each.
local function bury(dead, letters, now)
  parts(letters, function(part)
    local args = {}
    for _, d in ipairs(part) do
      args[#args + 1] = d[1]
      args[#args + 1] = table.concat({text(d[1]), text(d[2]), text(now), d[3]}, ':')
    end
    call('ZADD', dead, unpack(args))
  end)
end

-- forget drops the reasons of deliveries.
local function forget(why, ids)
  parts(ids, function(part)
    call('HDEL', why, unpack(part))
  end)
end

-- seek moves where new events start for the group.
local function seek(log, group, position)
  if redis.REDIS_VERSION_NUM then -- since 7.0, which can be told the group's own lag
    call('XGROUP', 'SETID', log, group, position, 'ENTRIESREAD', position)
  else
    call('XGROUP', 'SETID', log, group, position)
  end
end

-- frontier is the highest sequence up to which nothing is open.
local function frontier(log, group, position)
  local first = call('XPENDING', log, group, '-', '+', 1)[1]
  return first and sequence(first[1]) - 1 or position
end

-- before compares timestamps: they are in µs, and beyond what a number holds exactly.
local function before(a, b)
  local minusA, minusB = string.byte(a) == 45, string.byte(b) == 45
  if minusA ~= minusB then
    return minusA
  end
  if #a ~= #b then
    return (#a < #b) ~= minusA
  end
  if minusA then
    a, b = b, a
  end
  return a < b
end

-- expired counts leases that have run out, for a while: it returns how many, and
-- up to which sequence, or 0 if these are all.
local function expired(log, group, override, from)
  local now, server = clock(override)
  local need, n = HORIZON + server - now, 0
  for _ = 1, 10 do
    local list = call('XPENDING', log, group, 'IDLE', need, from, '+', PAGE)
    for _, p in ipairs(list) do
      if p[2] ~= WAITING then
        n = n + 1
      end
    end
    if #list < PAGE then
      return n, 0
    end
    from = '(' .. list[#list][1]
  end
  return n, sequence(string.sub(from, 2))
end

local function lost(what, key)
  return redis.error_reply(what .. ' ' .. key)
end
