-- unclaim: takes back a claim with a lost reply, by its token. Its messages go back to the head of
-- the queue as they were, because no agent got them; a turn with steps is parked. If the end of that
-- turn was requested meanwhile, nothing goes back: the next claim ends the turn like a dead owner's.
--
-- KEYS sentinel run followups resume journal pending active lease scheduled retry
-- ARGS
--   s.task       prefix of the session's task hashes
--   s.prefix     of task ids
--   s.token      of the claim
--   gives flag   the owner gives the turn back, and ends it itself if that was requested
-- RETURNS
--   'released' at:int now:int     at: when it can be claimed again, ms; 0: never
--   'requested' request    gives: 'stop', 'interrupt' or 'rollback': end the turn that way instead;
--     nothing is written
--   'lost'                the claim was not carried out, or its sentinel has expired

local now = now_ms()
local run = fields(s.run, 'token', 'ids', 'hold', 'reset', 'last', 'fence', 'phase', 'stop', 'rollback', 'interrupt')
local mine = s.token .. ' - released' -- no fence: the caller does not know it
if run.last == mine then return released{at = run.token == s.token and now or claimable_at(s, run, now) or 0, now = now} end
if run.token ~= s.token or not owns(s.sentinel, s.token) then return lost{} end
local ids, back = cjson.decode(run.ids), {}
local request = requested(run, run.fence)
local ends = request ~= ''
if gives and ends then return requested{request = request} end
for i = #ids, 1, -1 do -- newest first
  if not ends and call('HEXISTS', s.task .. ids[i], 'msg') == 1 then back[#back + 1] = ids[i] end
end
call('LLEN', s.active)
call('LLEN', s.pending)
local carried = call('HGET', s.resume, 'interruptions')
local journal = #back > 0 and fields(s.journal, 'closed', 'fence') or {}
local park = journal.closed and journal.fence == run.fence

call('DEL', s.sentinel)
for _, id in ipairs(back) do
  if park then pcall('ZREM', s.lease, id) else requeue_message(s, id, true) end
end
if run.reset == 'suspended' then -- the turn that begins a new transcript is still to come
  call('HSET', s.run, 'special', '1')
  call('HSET', s.resume, 'suspended', '1')
  if carried then call('HSET', s.resume, 'carried', carried) end
end
if ends then
  call('HSET', s.run, 'reset', '', 'last', mine)
  return released{at = now, now = now}
end
if park then
  call('HSET', s.run, 'token', '', 'phase', 'parked', 'hold', '0 ' .. ids[1], 'reset', '', 'last', mine)
  return released{at = now, now = now}
end
call('HSET', s.run, 'token', '', 'phase', 'idle', 'reset', '', 'last', mine)
return released{at = next_at(s, run.hold, now) or 0, now = now}
