-- Code generated from ../lua/accept.lua by go generate; DO NOT EDIT.
--
-- accept: stores a message, unless there is one with its id, and notifies the session's owner. Safe
-- to repeat. One call drops at most 100 messages or about 4 MiB from a queue that is too long.
-- Later calls drop the rest.
--
-- The fast path is for the common case: a new message without a delay or a route, for a session
-- without an owner. It accepts messages of many sessions in one call. In other cases it does
-- nothing, and the sender sends the full path.
--
-- KEYS sentinel run record followups pending idem
-- EACH
--   s.task                prefix of the session's task hashes
--   session               its key
--   id                    of the task
--   msg                   the task, as asynq encodes it
--   nonce                 of this sender, in msg
--   mode                  busy mode, or '' for the session's
--   line_cap number       how many messages may wait, at most half of them (rounded up) delayed
--   to                    destination of the outcome; '': the session's own, else fallback; '-': none
--   hash                  of the message as the sender wants it, if it chose the id, else ''
--   idem_ttl int          how long another hash is a conflict, ms
-- RETURNS
--   result: now:int state n:int duplicate:flag
--     duplicate: 1 if there was a message with its id, of another Send. state:
--     'queued'     behind a turn; n = its position, which counts the running turn
--     'ends'       likewise, and the turn is to end or its owner died: the session is to be claimed
--     'idle'       nothing runs: the session is to be claimed; n = when, ms
--     'scheduled'  n = when, ms
--     'running', 'completed', 'archived'; 'completed' also of this call, repeated after the result
--       was deleted
--     'busy'       refused: a turn is running, or has begun and waits till n, ms
--     'full'       refused, n = the cap of follow-ups
--     'line'       refused, n = line_cap
--     'outbox'     refused, n = outbox_cap, also for a destination in full
--     'not_last'   refused: another message than after is the session's last
--     'agent'      refused: the session has another agent
--     'conflict'   refused: the id was used with another hash
--     'expired'    refused: it was carried out with this hash, and is no longer there
--   'special'      the fast path has done nothing
--
-- A refused message is not stored, and its id is free: a repetition of the call decides again.

local call, pcall, try = redis.pcall, redis.pcall, pcall
local KEYS, ARGV = KEYS, ARGV
local function fields_1(key)
  local v = call('HMGET', key, 'mode', 'phase', 'worker', 'warm')
  return {mode = v[1], phase = v[2], worker = v[3], warm = v[4]}
end
local function fields_2(key)
  local v = call('HMGET', key, 'created_at', 'queue', 'reply_to')
  return {created_at = v[1], queue = v[2], reply_to = v[3]}
end

-- Redis' clock in milliseconds. No script reads another clock.
local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local now = now_ms()

-- signal_warm(run, session) notifies the last owner, which may have a warm agent of the session, a
-- little before the other workers.
local function signal_warm(run, session)
  if run.warm == '1' then call('PUBLISH', 'turnstile:signal:' .. run.worker, '{"kind":"ready","session":"' .. session .. '"}') end
end

-- Each round serves the session whose keys come after KEYS[k], and whose arguments after ARGV[a].
local results, k, a = {}, 0, 0
while KEYS[k + 1] do
  local result
  repeat
    local s_sentinel, s_run, s_record, s_followups, s_pending, s_idem = unpack(KEYS, k + 1, k + 6)
    local s_task, session, id, msg, nonce, mode, line_cap, to, hash, idem_ttl = unpack(ARGV, a + 1, a + 10)
    line_cap = tonumber(line_cap)
    if call('EXISTS', s_sentinel, s_followups, s_idem, s_task .. id) ~= 0 then result = false break end
    local run, record = fields_1(s_run), fields_2(s_record)
    if run.phase == nil or record.queue == nil or (run.phase or 'idle') ~= 'idle' or to == '' and (record.reply_to or '') ~= '' then result = false break end
    local waiting, seq = call('LPUSH', s_pending, id), false
    if type(waiting) ~= 'number' then result = false break end
    -- After other messages, one may exceed the cap, be collected, or wait for collected ones. If the
    -- cap is one, even the first may exceed it: delayed messages count.
    if waiting == 1 and line_cap > 1 or waiting <= line_cap - math.ceil(line_cap / 2) and mode ~= 'collect' and run.mode ~= 'collect' and not record.queue
      and not call('HGET', s_task .. call('LINDEX', s_pending, '-1'), 'quiet') then
      seq = call('HINCRBY', s_record, 'seq', '1')
    end
    if type(seq) ~= 'number' then
      call('LREM', s_pending, '1', id)
      result = false break
    end
    call('HSET', s_task .. id, 'msg', msg, 'state', 'pending', 'seq', seq, 'seen', string.format('%d', now), 'pending_since', string.format('%d', now) .. '000000')
    if hash ~= '' then call('SET', s_idem, hash .. ' ' .. nonce, 'PX', idem_ttl) end
    if not record.created_at then call('HSET', s_record, 'v', '1', 'created_at', string.format('%d', now)) end
    signal_warm(run, session)
    result = {now, 'idle', now, 0} break
  until true
  results[#results + 1] = result or {'special'}
  k, a = k + 6, a + 10
end
return results
