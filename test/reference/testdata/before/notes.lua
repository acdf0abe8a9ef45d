-- Of which dropped messages the next turn is told, after session.lua. The record's
-- dropped has the ids of the newest 50. omitted counts those that have left it without
-- being told, and omitted_told how many of these are not to be counted any more. All
-- three are needed: while a turn tells of some, others may come, push them out, or be
-- forgotten with the conversation. Senders and workers of an older version know only
-- dropped, and it has no bound.

local NOTES = 50

-- noted_ids(dropped): as an array, whatever the record has there.
local function noted_ids(dropped)
  local ok, ids = try(cjson.decode, dropped or '')
  if ok and type(ids) == 'table' then return ids end
  return {}
end

local function count_of(n) return tonumber(n) or 0 end

-- note_dropped(drops): drops, each with its id first, are to be told.
local function note_dropped(drops)
  local n, newest = call('HMGET', record, 'dropped', 'omitted'), {}
  local ids = noted_ids(n[1])
  for _, d in ipairs(drops) do ids[#ids + 1] = d[1] end
  local over = math.max(#ids - NOTES, 0)
  for i = over + 1, #ids do newest[#newest + 1] = ids[i] end
  call('HSET', record, 'dropped', cjson.encode(newest), 'omitted', int(count_of(n[2]) + over))
end

-- forget_notes(): they were of a conversation that is left.
local function forget_notes()
  local n = call('HMGET', record, 'dropped', 'omitted', 'omitted_told')
  local gone = count_of(n[2]) + #noted_ids(n[1])
  if gone == count_of(n[3]) then return end
  call('HSET', record, 'dropped', '', 'omitted', int(gone), 'omitted_told', int(gone))
end

-- told_notes(dropped): what a worker is told: 'omitted omitted_told ids', or ''.
local function told_notes(dropped)
  if not dropped or dropped == '' then return '' end
  local n = call('HMGET', record, 'omitted', 'omitted_told')
  return int(count_of(n[1])) .. ' ' .. int(count_of(n[2])) .. ' ' .. dropped
end

-- untold_notes(dropped, told, before): what stays of the record's dropped and of
-- omitted_told when a turn has told of the first so many ids that dropped had when
-- omitted was before.
local function untold_notes(dropped, told, before)
  local n, rest = call('HMGET', record, 'omitted', 'omitted_told'), {}
  local left = math.min(math.max(count_of(n[1]) - before, 0), told) -- of these, meanwhile
  local ids = noted_ids(dropped)
  for i = told - left + 1, #ids do rest[#rest + 1] = ids[i] end
  return #rest > 0 and cjson.encode(rest) or '', math.max(count_of(n[2]), before + left)
end
