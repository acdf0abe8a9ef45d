-- The journal of a turn that has not ended: what its next run begins with.

-- belongs(s, journal, first) returns whether the journal, its fields, is of a turn with this first task.
-- A task that is enqueued again under the same id has no origin.
local function belongs(s, journal, first)
  return journal.origin and journal.origin == call('HGET', s.task .. first, 'origin')
end

-- carries_on(s, fence) returns what the turn with this fence carries on from earlier runs, for claim's
-- result, the fence of the first run that it goes on from, and how many items of its output stand.
local function carries_on(s, fence)
  local j = fields(s.journal, 'fence', 'closed', 'began', 'keeps')
  if j.fence ~= tostring(fence) then return '', 0, 0 end
  return j.closed and 'steps' or 'entries', tonumber(j.began) or 0, tonumber(j.keeps) or 0
end
