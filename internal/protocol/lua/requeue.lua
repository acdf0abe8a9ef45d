-- requeue: puts a turn back at the head of the queue and releases the session: for a retry after a
-- while, or because its worker drains. A turn with steps is parked instead: it stays one turn.
--
-- KEYS sentinel run followups resume events journal pending active lease scheduled retry processed processed_day
-- KEYS outbox deliveries
-- ARGS
--   s.task                 prefix of the session's task hashes
--   s.prefix               of turn ids
--   s.token
--   s.fence int
--   s.events_cap int       see append_event
--   s.short number         bytes
--   s.large_bytes int
--   wait number            before it may be taken again, ms; 0: at once
--   attempts               so far, for asynq's retried; '': none was spent
--   why                    the error, if an attempt was spent
--   event                  JSON
--   start                  the turn's start, JSON, if the stream does not have it yet, or ''
--   journal_ttl int        ms
--   left                   how many of the journal's entries stay; '': all
--   reason                 why a running turn was interrupted, for the resume mark; '': it was not
--   stuck_limit number     interruptions in a row that suspend the session; a lost lease is none
--   age number             for how long the worker has run, ms
--   progressed flag        this run has ended a tool that no earlier one had
--   waits                  the number of the open question for whose decision a parked turn waits, see ask; '': none
--   ids list               of the tasks, oldest first
-- RETURNS
--   'released' at:int now:int      at: when it can be claimed again, ms; 0: never
--   'requested' request    'stop', 'interrupt' or 'rollback': end the turn that way instead;
--     nothing is written
--   'lost'

local now = now_ms()
local run = fields(s.run, 'token', 'fence', 'phase', 'done', 'hold', 'rotated', 'last', 'stop', 'rollback', 'interrupt', 'question', 'answered')
local hold = run.hold
if not owned(s, run) then
  if earlier_result(s, run) then return released{at = claimable_at(s, run, now) or 0, now = now} end
  return lost{}
end
local request = requested(run, s.fence)
if request ~= '' then return requested{request = request} end

local failed = attempts ~= ''
local back, gone = {}, {}
for i = #ids, 1, -1 do -- newest first, so that the oldest ends up as the head
  local msg = failed and call('HGET', s.task .. ids[i], 'msg') -- a failed attempt changes it
  if msg or not failed and call('HEXISTS', s.task .. ids[i], 'msg') == 1 then
    back[#back + 1] = {id = ids[i], msg = msg}
  else
    gone[#gone + 1] = ids[i]
  end
end
local rotated = run.rotated and run.rotated ~= '' -- the next run has another transcript
local mark, journal = load_mark(s), fields(s.journal, 'origin', 'progress', 'closed')
local park = journal.closed and #back > 0 and belongs(s, journal, back[#back].id)
local of, question = string.match(run.question or '', '^(%d+) (%d+) ')
local asks = park and waits == question and of == s.fence
if waits ~= '' and (not asks or string.match(run.answered or '', '^%d+ %d+ ') == of .. ' ' .. question .. ' ') then wait = 0 end
local interrupted = reason ~= '' and run.phase == 'running'
  and interrupt(mark, s.fence, reason, rotated, now, reason ~= LEASE_LOST and stuck_limit,
    progressed or journal.progress == s.fence, now - age) -- false: it was counted before
call('LLEN', s.active)
call('LLEN', s.pending)

call('DEL', s.sentinel)
for _, id in ipairs(gone) do -- another program has deleted the task
  call('LREM', s.active, 1, id)
  pcall('ZREM', s.lease, id)
end
for _, b in ipairs(back) do
  if park then pcall('ZREM', s.lease, b.id) end
  if park or requeue_message(s, b.id) then
    if failed then -- 6 retried
      call('HSET', s.task .. b.id, 'msg', with_error(b.msg, why, math.floor(now / 1000)) .. '\48' .. varint(math.max(tonumber(attempts), 0)))
    elseif not asks then
      pcall('HINCRBY', s.task .. b.id, 'redelivered', 1)
    end
  end
end
if rotated then leave_conversation(s) end
if left == '0' and not journal.closed then
  call('UNLINK', s.journal)
elseif left ~= '' and journal.origin then
  call('HSET', s.journal, 'n', left)
end
if park then call('PEXPIRE', s.journal, journal_ttl) end
if interrupted then store_interruption(s, mark) end
if park or wait > 0 and #back > 0 then hold = int(now + wait) .. ' ' .. back[#back].id end
count_processed(s, tonumber(run.done) or 0)
if rotated then call('HSET', s.run, 'sid', run.rotated, 'entries', '0', 'rotated', '') end
local phase = park and 'parked' or 'idle'
call('HSET', s.run, 'token', '', 'phase', phase, 'last', s.token .. ' ' .. s.fence .. ' released', 'hold', hold or '', 'done', '0')
if not asks then
  close_question(s, now)
  call('HDEL', s.run, 'question')
end
append_event(s, event, start)
return released{at = park and now + wait or next_at(s, hold, now) or 0, now = now}
