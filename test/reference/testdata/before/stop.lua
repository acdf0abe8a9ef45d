-- stop: the turn that runs now is to end, and what waits behind it is put aside in
-- one go, and archived a batch a call. It names the turn that it found.
--
-- ARGV[2] prefix of task ids        ARGV[4] this call's number: 1, 2 ...
-- ARGV[3] "messages bytes" that     ARGV[5] cap of the event stream
--         a call archives           ARGV[6] do nothing after this ms: the sender
--                                           has given up, and what came since is
--                                           not what it meant
-- ARGV[7] how many bytes a task's msg may have
--
-- Answers {'idle', 'starting' or 'running', fence, how many messages it means, 1 if
-- more is to be archived: call again with the next number}; {'earlier'}: nothing of this
-- stop, but a batch of one before it: call again with the same number; or {'late'}.

local prefix, cap, number = ARGV[2], ARGV[5], tonumber(ARGV[4])
local now = now_ms()

-- Others may archive of it as well, a claim or another stop: so what it means is counted
-- when it is put aside, less ids without a task as they are met.
local of, state, fence, meant, rest = string.match(call('GET', answer_key) or '', '^(%d+) (%S+) (%d+) (%d+) (%d)$')
if of and tonumber(of) >= number then return {state, tonumber(fence), tonumber(meant), tonumber(rest)} end
local first = not of and number == 1
if first and now > tonumber(ARGV[6]) then return {'late'} end

local earlier = first and call('EXISTS', stopped) == 1
local asks = first and not earlier
local r = call('HMGET', run, 'token', 'worker', 'fence', 'phase', 'stop')
local owner = call('GET', sentinel)
if asks then -- also of a dead owner: the next claim reads what was asked
  state, fence, meant = r[4] or 'idle', r[3] or '0', call('LLEN', pending)
end
local batch, more = stopped_batch(asks and pending or stopped, ARGV[3], tonumber(ARGV[7]))
if not asks and not of then -- the answer's time is over
  state, fence, meant = 'idle', '0', #batch
end
call('ZCARD', archived)
call('HLEN', followups)
call('HLEN', record)

-- A full Redis refuses a script until its first write, so that one frees.
call('HDEL', followups, '')
if asks and #batch > 0 then call('RENAMENX', pending, stopped) end
if asks then forget_notes() end
local n = archive_stopped(batch, prefix, cap, now)
mark_stopping(more)
if earlier then return {'earlier'} end
if asks and state ~= 'idle' and r[5] ~= fence then
  call('HSET', run, 'stop', fence)
  if owner then call('PUBLISH', 'turnstile:signal:' .. r[2], '{"kind":"stop","token":"' .. owner .. '","fence":' .. fence .. '}') end
end
n = math.max(tonumber(meant) - #batch + n, 0)
rest = more and 1 or 0
if n > 0 or rest > 0 or state ~= 'idle' then
  keep_answer(number, state, fence, n, rest)
end
return {state, tonumber(fence), n, rest}
