-- stop: requests the end of the running turn, and moves all waiting messages to a separate list.
-- Each call archives a batch of that list. The request applies to the turn that it found.
--
-- KEYS sentinel run record followups events pending processed processed_day archived failed failed_day stopped
-- KEYS owed outbox deliveries audit call
-- ARGS
--   s.task               prefix of the session's task hashes
--   s.by                 who does it, '' if unknown: see audit
--   s.prefix             of task ids
--   s.events_cap int     see append_event
--   s.short number       bytes
--   s.large_bytes int
--   s.longest number     how many bytes a task's msg may have
--   batch_limits         "messages bytes" that a call archives
--   number number        this call's: 1, 2 ...
--   deadline number      do nothing after this ms: the sender has given up, and does not mean
--     messages that came since
-- RETURNS
--   result: phase fence:int meant:int more:flag wake:flag
--     phase: 'idle', 'starting', 'running' or 'parked'; meant: how many messages it applies to; more: 1 if more are to
--     be archived: call again with the next number; wake: 1 if the turn has no owner: the session is to be claimed
--   'earlier'            this call has archived a batch of an earlier stop: call again with the
--     same number
--   'late'

local now = now_ms()

-- A claim or another stop may archive some of these as well. So they are counted when they are
-- moved to the list. Ids without a task are subtracted when they are found.
local of, phase, fence, meant, rest, wake = string.match(call('GET', s.call) or '', '^(%d+) (%S+) (%d+) (%d+) (%d) (%d)$')
if of and tonumber(of) >= number then
  return result{phase = phase, fence = tonumber(fence), meant = tonumber(meant), more = tonumber(rest), wake = tonumber(wake)}
end
local first = not of and number == 1
if first and now > deadline then return late{} end

local before = first and call('EXISTS', s.stopped) == 1
local requests = first and not before
local run = fields(s.run, 'token', 'worker', 'fence', 'phase', 'stop')
local owner = call('GET', s.sentinel)
if requests then -- also of a dead owner: the next claim reads it
  phase, fence, meant = run.phase or 'idle', run.fence or '0', call('LLEN', s.pending)
end
local batch, more = stopped_batch(s, requests and s.pending or s.stopped, batch_limits)
if not requests and not of then -- the stored result has expired
  phase, fence, meant = 'idle', '0', #batch
end
call('ZCARD', s.archived)
call('HLEN', s.followups)
call('HLEN', s.record)

-- A full Redis refuses a script only until its first write, so that one frees memory.
call('HDEL', s.followups, '')
if requests and #batch > 0 then call('RENAMENX', s.pending, s.stopped) end
if requests then forget_notes(s) end
local n = archive_stopped(s, batch, now)
if #batch > 0 then call('HSET', s.run, 'unsaid', (fence ~= '0' and fence or run.fence or '0') .. ' ' .. batch[#batch].id) end
mark_stopping(s, more)
if before then return earlier{} end
if requests and phase ~= 'idle' and run.stop ~= fence then
  call('HSET', s.run, 'stop', fence)
  if owner then call('PUBLISH', 'turnstile:signal:' .. run.worker, '{"kind":"stop","token":"' .. owner .. '","fence":' .. fence .. '}') end
end
n = math.max(tonumber(meant) - #batch + n, 0)
rest, wake = more and 1 or 0, phase ~= 'idle' and not owner and 1 or 0
if n > 0 or rest > 0 or phase ~= 'idle' then
  keep_result(s, number, phase, fence, n, rest, wake)
  if requests then audit(s, 'stop', phase ~= 'idle' and s.prefix .. fence or '', now) end
end
return result{phase = phase, fence = tonumber(fence), meant = n, more = rest, wake = wake}
