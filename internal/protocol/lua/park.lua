-- park: lets a turn wait without an owner until a time, and releases the session. It is the only way to leave a
-- turn that has not ended: it keeps its messages, in active, and its journal, and the next claim goes on with it.
--
-- KEYS sentinel run resume events journal pending active lease scheduled retry processed processed_day
-- KEYS outbox deliveries
-- ARGS
--   s.task                 prefix of the session's task hashes
--   s.prefix               of turn ids
--   s.token
--   s.fence int
--   s.events_cap int       see append_event
--   s.short number         bytes
--   s.large_bytes int
--   wait number            before it may be claimed again, ms; 0: at once
--   attempts               so far, for asynq's retried; '': none was spent
--   why                    the error, if an attempt was spent
--   event                  JSON
--   start                  the turn's start, JSON, if the stream does not have it yet, or ''
--   journal_ttl int        ms
--   reason                 why a running turn was interrupted, for the resume mark; '': it was not
--   stuck_limit number     interruptions in a row that suspend the session; a lost lease is none
--   age number             for how long the worker has run, ms
--   progressed flag        this run has ended a tool that no earlier one had
--   waits                  the number of the open question for whose decision it waits, see ask; '': none
--   throttled flag         a provider asks for the wait: that is neither an attempt nor an interruption
--   ids list               of the tasks, oldest first
-- RETURNS
--   'released' at:int now:int      at: when it can be claimed again, ms; 0: never
--   'requested' request    'stop', 'interrupt' or 'rollback': end the turn that way instead;
--     nothing is written
--   'lost'

local now = now_ms()
local run = fields(s.run, 'token', 'fence', 'phase', 'done', 'hold', 'last', 'stop', 'rollback', 'interrupt', 'question', 'answered', 'rotated', 'throttled')
if not owned(s, run) then
  if earlier_result(s, run) then return released{at = claimable_at(s, run, now) or 0, now = now} end
  return lost{}
end
local request = requested(run, s.fence)
if request ~= '' then return requested{request = request} end

local of, question = string.match(run.question or '', '^(%d+) (%d+) ')
local asks = waits ~= '' and waits == question and of == s.fence
if asks and (run.rotated or '') ~= '' then return requested{request = 'interrupt'} end -- as /new of a turn that waits
if waits ~= '' and (not asks or string.match(run.answered or '', '^%d+ %d+ ') == of .. ' ' .. question .. ' ') then wait = 0 end
local failed, again = {}, {}
for _, id in ipairs(ids) do
  local msg = attempts ~= '' and call('HGET', s.task .. id, 'msg')
  if msg then failed[#failed + 1] = {id = id, msg = msg} end
  if attempts == '' and not asks and not throttled and call('HEXISTS', s.task .. id, 'msg') == 1 then again[#again + 1] = id end
end
local mark = load_mark(s)
progressed = progressed or call('HGET', s.journal, 'progress') == s.fence
local interrupted = reason ~= '' and run.phase == 'running'
  and interrupt(mark, s.fence, reason, now, reason ~= LEASE_LOST and stuck_limit, progressed, now - age) -- false: it was counted before
call('LLEN', s.active)

call('DEL', s.sentinel)
for _, id in ipairs(ids) do pcall('ZREM', s.lease, id) end
for _, id in ipairs(again) do pcall('HINCRBY', s.task .. id, 'redelivered', 1) end
for _, f in ipairs(failed) do -- 6 retried; in each, as the first may leave the turn
  call('HSET', s.task .. f.id, 'msg', with_error(f.msg, why, math.floor(now / 1000)) .. '\48' .. varint(math.max(tonumber(attempts), 0)))
end
call('PEXPIRE', s.journal, journal_ttl)
if interrupted then store_interruption(s, mark) end
count_processed(s, tonumber(run.done) or 0)
call('HSET', s.run, 'token', '', 'phase', 'parked', 'hold', int(now + wait), 'last', s.token .. ' ' .. s.fence .. ' released', 'done', '0')
if throttled then call('HSET', s.run, 'throttled', s.fence .. ' ' .. int((tonumber(of_turn(run, run.throttled)) or 0) + 1)) end
if not asks then
  close_question(s, now)
  call('HDEL', s.run, 'question')
end
append_event(s, event, start)
return released{at = now + wait, now = now}
