-- Finds event IDs that the log holds; append.lua says how they are kept.

local ID = 36 -- bytes of a UUIDv7

-- at returns the first entry from a sequence on: its sequence, its ID, and the highest up to it.
local function at(log, place)
  local entry = call('XRANGE', log, place, '+', 'COUNT', 1)[1]
  if entry then
    return sequence(entry[1]), identity(entry)
  end
end

-- search returns the first entry, from low on, up to which the highest is id or above, as at
-- does. Up to base, the last, it is.
local function search(log, base, id, low)
  local up, step = base, 1 -- most are near the end
  while up - step >= low do
    local place, _, highest = at(log, up - step)
    if place and highest < id then
      low = place + 1
      break
    end
    up, step = up - step, 2 * step
  end
  while low < up do
    local middle = floor((low + up) / 2)
    local place, _, highest = at(log, middle)
    if place and highest < id then
      low = place + 1
    else
      up = middle
    end
  end
  return at(log, up)
end

-- finder returns a function that finds an ID which is not above the highest. It returns the
-- sequence, if the ID is one that was the highest; and otherwise the next above it which was.
-- What comes one after another is found one after another.
local function finder(log, base)
  local previous, place, own, highest = nil, nil, nil, nil
  return function(id)
    if not place or id < previous then
      place, own, highest = search(log, base, id, 1)
    elseif highest < id then
      place, own, highest = at(log, place + 1)
      if place and highest < id then
        place, own, highest = search(log, base, id, place + 1)
      end
    end
    previous = id
    if own == id then
      return place
    end
    return nil, highest
  end
end

-- A late batch is written as its last ID, its first, the sequence of that, and how many.
local function written(first, last, low, n)
  return last .. first .. text(low) .. ':' .. text(n)
end

-- batch returns the first late batch that does not end below an ID: its first ID, the sequence
-- of that, and how many.
local function batch(late, id)
  local found = call('ZRANGEBYLEX', late, '[' .. id, '+', 'LIMIT', 0, 1)[1]
  if found then
    local low, n = string.match(found, '^(%d+):(%d+)$', 2 * ID + 1)
    return string.sub(found, ID + 1, 2 * ID), tonumber(low), tonumber(n)
  end
end

-- findlate finds an ID in the late batches.
local function findlate(log, late, id)
  local first, low, n = batch(late, id)
  if not first or first > id then
    return nil
  end
  local up = low + n - 1
  while low < up do
    local middle = floor((low + up) / 2)
    local place, own = at(log, middle)
    if place and own < id then
      low = place + 1
    else
      up = middle
    end
  end
  local place, own = at(log, up)
  return own == id and place or nil
end

-- prefix is what the UUIDv7s of a time begin with, in ms.
local function prefix(ms)
  return string.format('%08x-%04x', floor(ms / 65536), ms % 65536)
end
