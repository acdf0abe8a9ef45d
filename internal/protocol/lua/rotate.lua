-- rotate: begins another transcript with the next message, under the same key, queue and lock. A
-- turn that has begun ends in the old one. Without an owner it ends at once, if it is parked for a decision
-- or if the agent changes. The interruptions' number in a row stays: a waiting message may
-- be the one that kills workers.
--
-- KEYS sentinel run record resume audit
-- ARGS
--   s.by                who does it, '' if unknown: see audit
--   fresh_sid           the new transcript id
--   sid                 the transcript id that it replaces, or '' for any
--   deadline number     do nothing after this ms: the sender has given up
--   agent               the agent of the new transcript; '': the same
-- RETURNS
--   result: sid changed:int wake:flag
--     sid: the transcript id now; changed: 1 if this call or an earlier one has set it, 0 if the
--     transcript id was not sid, -1 if it is too late; wake: 1 if the session is to be claimed

local record = fields(s.record, 'session_id', 'created_at', 'agent', 'fence')
local run = fields(s.run, 'phase', 'fence', 'question', 'answered', 'other_agent', 'stop', 'rollback', 'interrupt')
local owner, turn = call('EXISTS', s.sentinel) == 1, begun(run)
if record.session_id == fresh_sid then
  return result{sid = fresh_sid, changed = 1, wake = turn and not owner and requested(run, run.fence) ~= '' and 1 or 0}
end
if sid ~= '' and record.session_id ~= sid then return result{sid = record.session_id or '', changed = 0, wake = 0} end
local now = now_ms()
if now > deadline then return result{sid = '', changed = -1, wake = 0} end
local bound = record.agent or record.fence and DEFAULT_AGENT
local changes = agent ~= '' and agent ~= bound
local question = string.match(run.question or '', '^%d+ %d+ ')
local asks = run.phase == 'parked' and question and string.match(question, '^%d+') == run.fence and string.sub(run.answered or '', 1, #question) ~= question
local ends = turn and not owner and (asks or changes)
call('HLEN', s.resume)
call('HSET', s.record, 'v', '1', 'session_id', fresh_sid, 'updated_at', int(now), 'created_at', record.created_at or int(now))
call('HDEL', s.record, 'title', 'title_by')
forget_notes(s)
if run.fence then call('HSET', s.run, 'rotated', fresh_sid) end
call('HDEL', s.run, 'unsaid') -- it is of the old one
if changes then
  call('HSET', s.record, 'agent', agent)
  if turn and of_turn(run, run.other_agent) == '' then
    call('HSET', s.run, 'other_agent', run.fence .. ' ' .. bound)
  end
end
if not turn then call('HDEL', s.resume, 'pending', 'reason', 'marked_at', 'suspended') end
if ends then call('HSET', s.run, 'interrupt', run.fence) end
audit(s, 'new', agent, now)
return result{sid = fresh_sid, changed = 1, wake = turn and not owner and (ends or requested(run, run.fence) ~= '') and 1 or 0}
