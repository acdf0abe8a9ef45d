-- Notes of dropped messages, which the next turn gives to its agent. They are three fields of the
-- session's record. dropped has the ids of the newest 50. omitted counts the ids that left dropped
-- without a note. omitted_told is how many of these no longer need a note. All three are needed:
-- while an agent runs with some of the notes, newly dropped messages may push these out, or the
-- notes may be deleted with the transcript.

local NOTES = 50

-- noted_ids(dropped) returns the ids of the record's dropped as an array. If it cannot be read, the
-- array is empty.
local function noted_ids(dropped)
  local ok, ids = try(cjson.decode, dropped or '')
  if ok and type(ids) == 'table' then return ids end
  return {}
end

local function count_of(n) return tonumber(n) or 0 end

-- note_dropped(s, drops) adds dropped messages, each with its id, to the notes.
local function note_dropped(s, drops)
  local n, newest = fields(s.record, 'dropped', 'omitted'), {}
  local ids = noted_ids(n.dropped)
  for _, d in ipairs(drops) do ids[#ids + 1] = d.id end
  local over = math.max(#ids - NOTES, 0)
  for i = over + 1, #ids do newest[#newest + 1] = ids[i] end
  call('HSET', s.record, 'dropped', cjson.encode(newest), 'omitted', int(count_of(n.omitted) + over))
end

-- forget_notes(s) deletes the notes: their transcript was replaced.
local function forget_notes(s)
  local n = fields(s.record, 'dropped', 'omitted', 'omitted_told')
  local gone = count_of(n.omitted) + #noted_ids(n.dropped)
  if gone == count_of(n.omitted_told) then return end
  call('HSET', s.record, 'dropped', '', 'omitted', int(gone), 'omitted_told', int(gone))
end

-- notes_record(s, dropped) returns the notes for a worker: 'omitted omitted_told ids', or ''.
local function notes_record(s, dropped)
  if not dropped or dropped == '' then return '' end
  local n = fields(s.record, 'omitted', 'omitted_told')
  return int(count_of(n.omitted)) .. ' ' .. int(count_of(n.omitted_told)) .. ' ' .. dropped
end

-- remaining_notes(s, dropped, reported, before) returns the record's dropped and omitted_told after
-- a turn. Its agent received the first reported ids of dropped; omitted was before then.
local function remaining_notes(s, dropped, reported, before)
  local n, rest = fields(s.record, 'omitted', 'omitted_told'), {}
  local pushed_out = math.min(math.max(count_of(n.omitted) - before, 0), reported) -- of these, meanwhile
  local ids = noted_ids(dropped)
  for i = reported - pushed_out + 1, #ids do rest[#rest + 1] = ids[i] end
  return #rest > 0 and cjson.encode(rest) or '', math.max(count_of(n.omitted_told), before + pushed_out)
end
