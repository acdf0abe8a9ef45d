-- The journal of a turn that was interrupted: what its next run begins with. One with steps belongs to
-- its message, whatever transcript the next run has; one with entries alone goes with the transcript.

-- belongs(s, journal, first) returns whether the journal, its fields, is of a turn with this first task.
-- A task that is enqueued again under the same id has no origin.
local function belongs(s, journal, first)
  return journal.origin and journal.origin == call('HGET', s.task .. first, 'origin')
end

-- regroup(s, journal, first, back, gone, ends) returns the messages of a turn that goes on, or with ends is
-- to end, or false if its first message, first, is a turn by itself. They stand behind gone ids without
-- a task at the head of the queue, or are among back, the newest first: then these are last in it.
local function regroup(s, journal, first, back, gone, ends)
  local ids, group, from = {}, {first}, {}
  if belongs(s, journal, first.id) then
    if not journal.closed and not ends then return false end
    local ok, taken = try(cjson.decode, journal.ids or '')
    if ok and type(taken) == 'table' then ids = taken end
  elseif ends then
    for i, b in ipairs(back) do ids[#back + 1 - i] = b.id end
  end
  if ids[1] ~= first.id then return false end
  local line = #back == 0 and call('LRANGE', s.pending, -#ids - gone, -1 - gone) or {} -- the newest first
  for i, b in ipairs(back) do from[b.id] = i end
  local stay = {back[#back]}
  for i = 2, #ids do
    local t = (from[ids[i]] or line[#line - #group] == ids[i]) and load_task(s, ids[i])
    if t and t.msg and not t.too_long then -- else it was cancelled, or is behind another message
      group[#group + 1] = t
      local b = back[from[t.id]]
      if b then t.redelivered, stay[#stay + 1] = (tonumber(t.redelivered) or 0) + b.again, b end
    end
  end
  for _, b in ipairs(stay) do from[b.id] = nil end
  local n = 0
  for _, b in ipairs(back) do
    if from[b.id] then back[n + 1], n = b, n + 1 end
  end
  for i = #stay, 1, -1 do back[n + 1], n = stay[i], n + 1 end
  return group
end

-- forget_work(s) deletes what an interrupted turn has done, except its steps: the next turn has another
-- transcript.
local function forget_work(s)
  if call('HEXISTS', s.journal, 'closed') == 0 then call('DEL', s.journal) end -- senders may not unlink
end

-- carries_on(s, ends, fence) returns what the turn with this fence carries on from an earlier run, for claim's
-- result, and if it goes on, its first run's fence and how many items of its output stand. ends: it was begun
-- to end, and all of them stand.
local function carries_on(s, ends, fence)
  local j = fields(s.journal, 'fence', 'closed', 'began', 'keeps', 'call', 'items')
  if j.fence ~= tostring(fence) then return ends and 'interrupt' or '', 0, 0 end
  if ends then return 'interrupt', tonumber(j.began ~= '0' and j.began or string.match(j.call or '', '^%d+')) or 0, tonumber(j.items) or 0 end
  return j.closed and 'steps' or 'entries', tonumber(j.began) or 0, tonumber(j.keeps) or 0
end
