-- Code generated from ../lua/claim.lua by go generate; DO NOT EDIT.
--
-- claim: takes the sentinel, and with it the next message, or several that are collected into one
-- turn.
--
-- The fast path is for the common case: only ordinary messages wait, and the last owner has
-- released the session. It claims many sessions in one call. If the head of the queue is not an
-- ordinary message, it moves the head back. It skips tasks that a stock asynq.Server is to retry:
-- they wait for the end of the turn.
--
-- KEYS sentinel run followups resume journal paused scheduled active record pending
-- ARGS
--   ttl int          the sentinel's, ms
--   worker
--   phase            of the new turn
--   mode             this worker's busy mode
--   cap int          its cap of follow-ups
--   drop             its drop policy
--   debounce int     its quiet window, ms
--   warm bit         it keeps agents warm
--   s.longest number  how many bytes a task's msg may have
-- EACH
--   s.task           prefix of the session's task hashes
--   s.token          new for every claim
--   fresh_sid        a fresh transcript id
--   agent            for a session that has none yet, by its key
-- RETURNS
--   'turn' now:int fence:int sid entries:int dropped messages:message reset resume agent carries began:int keeps:int ends throttled
--     entries: written so far; dropped: 'omitted omitted_told ids' or ''; resume: the reason of
--     the resume mark; carries: what the turn's journal has, 'steps' or
--     'entries'; began: the fence of the first run that this one goes on from, 0: none; keeps: how many items of its
--     output stand; ends: 'stop', 'interrupt' or 'rollback' if the turn was claimed only to be ended like that, or why it
--     is given up: no agent runs; throttled: how often its runs have waited for a provider.
--     The fast path leaves out the last eight: its turn's agent is the argument
--   'other' now:int agent missing:int   this worker does not run the session's agent. missing: 1 if
--     no living worker runs it. Then the session's record says so; else nothing is written
--   'held' left:int          ms
--   'paused'
--   'wait' at:int            ms
--   'empty'
--   'again' dead:int     claim again: this call has archived a batch of the messages that a /stop
--     found waiting, or of messages at the head of the queue that are too long to be read, or it
--     has removed ids without a task from the queue or from active, or has moved messages from active to the queue, or
--     it has ended a turn whose worker died when it was to write that end. dead: now, ms, if there are new dead letters, else 0
--   'special'            the fast path has done nothing
--   message: id msg age:ms redelivered:int unique:flag steer:flag
--     age: ms; the last three may be left out: 0
--
-- A repetition under the same token returns the same result. The full path begins with SET, unless
-- it returns 'again': in a full Redis no new turn starts.

local call, pcall, try = redis.pcall, redis.pcall, pcall
local KEYS, ARGV = KEYS, ARGV
local s_longest = tonumber(ARGV[9])

-- DEFAULT_AGENT is the agent of sessions that have no other one: internal/protocol/agents.
local DEFAULT_AGENT = 'default'

-- activate(s, id, seen, at) writes that a task is in active. seen is its field, or false: then it
-- becomes at.
local function activate(s_task, id, seen, at)
  if seen then
    call('HSET', s_task .. id, 'state', 'active')
  else
    call('HSET', s_task .. id, 'state', 'active', 'seen', at)
  end
end

-- message_record(now, id, msg, seen, redelivered, unique_key, steer) returns the record of a message for
-- the worker that takes it.
local function message_record(now, id, msg, seen, redelivered, unique_key, steer)
  local age = now - (tonumber(seen) or now)
  if redelivered or unique_key or steer then
    return {id, msg, age, tonumber(redelivered) or 0, unique_key and 1 or 0, steer and 1 or 0}
  end
  return {id, msg, age}
end

-- Redis' clock in milliseconds. No script reads another clock.
local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- take_ordinary(s) moves the head of the queue to active if it is an ordinary message: it
-- waits for nothing, has no route and can be read. Returns its id, msg, seen, redelivered and
-- unique_key. If not, it moves the head back, and returns false and the head: an id, or false if
-- the queue is empty.
local function take_ordinary(s_active, s_longest, s_pending, s_task)
  local id = call('RPOPLPUSH', s_pending, s_active)
  if type(id) ~= 'string' then return false, id end
  local bytes = call('HSTRLEN', s_task .. id, 'msg')
  if type(bytes) == 'number' and bytes <= s_longest then
    local v = call('HMGET', s_task .. id, 'msg', 'seen', 'redelivered', 'quiet', 'unique_key', 'route')
    local t_msg, t_seen, t_redelivered, t_quiet, t_unique_key, t_route = v[1], v[2], v[3], v[4], v[5], v[6]
    if t_msg and not t_quiet and not t_route and string.find(id, '^[%w%-._:@+=~]*$') then
      return id, t_msg, t_seen, t_redelivered, t_unique_key
    end
  end
  call('LMOVE', s_active, s_pending, 'LEFT', 'RIGHT')
  return false, id
end

local ttl, worker, phase, mode, cap, drop, debounce, warm = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8]
local now = now_ms()

-- begin(s, first, last, sid, ids, entries, known) writes the beginning of the turn into the run
-- record and the session's record, and returns its fence. first: there is no run record yet; last:
-- the last fence; known: the session has a record. The records of a session's first turn are short:
-- a missing field has its default.
local function begin(s_record, s_run, s_token, first, last, sid, ids, entries, known)
  local fence, at = string.format('%d', (math.max((tonumber(last or 0) or 0) + 1, now))), string.format('%d', now)
  if first and drop == 'new' and warm == '0' then
    call('HSET', s_run, 'fence', fence, 'ids', ids, 'started_at', at, 'entries', '0', 'done', '0', 'token', s_token, 'phase', phase, 'sid', sid, 'worker', worker, 'mode', mode, 'cap', cap, 'debounce', debounce)
  else
    call('HSET', s_run, 'fence', fence, 'ids', ids, 'started_at', at, 'entries', string.format('%d', entries), 'done', '0', 'token', s_token, 'phase', phase, 'sid', sid, 'worker', worker, 'mode', mode, 'cap', cap, 'drop', drop, 'debounce', debounce, 'warm', warm)
  end
  if known then
    call('HSET', s_record, 'session_id', sid, 'fence', fence, 'updated_at', at)
  else
    call('HSET', s_record, 'v', '1', 'session_id', sid, 'fence', fence, 'created_at', at)
  end
  return tonumber(fence)
end

-- Each round serves the session whose keys come after KEYS[k], and whose arguments after ARGV[a].
local results, k, a = {}, 0, 9
while KEYS[k + 1] do
  local result
  repeat
    local s_sentinel, s_run, s_followups, s_resume, s_journal, s_paused, s_scheduled, s_active, s_record, s_pending = unpack(KEYS, k + 1, k + 10)
    local s_task, s_token, fresh_sid, agent = unpack(ARGV, a + 1, a + 4)
    local v = call('HMGET', s_run, 'phase', 'fence', 'sid', 'entries', 'done', 'rotated', 'special')
    local run_phase, run_fence, run_sid, run_entries, run_done, run_rotated, run_special = v[1], v[2], v[3], v[4], v[5], v[6], v[7]
    local v = call('HMGET', s_record, 'session_id', 'fence', 'created_at', 'dropped', 'agent')
    local record_session_id, record_fence, record_created_at, record_dropped, record_agent = v[1], v[2], v[3], v[4], v[5]
    if (record_agent or DEFAULT_AGENT) ~= agent or run_fence == nil or record_fence == nil or (run_phase or 'idle') ~= 'idle' or (run_done or '0') ~= '0' or (run_rotated or '') ~= ''
      or (run_special or '') ~= '' or (record_dropped or '') ~= '' then
      result = false break
    end
    -- A session that never had an owner has none of the keys that only owners write.
    if (run_fence or record_fence) and call('EXISTS', s_paused, s_scheduled, s_active, s_followups, s_resume, s_journal) ~= 0
      or not (run_fence or record_fence) and call('EXISTS', s_paused, s_scheduled, s_active) ~= 0 then
      result = false break
    end
    local set = call('SET', s_sentinel, s_token, 'NX', 'PX', ttl)
    if not set or set.err then result = false break end
    local id, msg, seen, redelivered, unique_key = take_ordinary(s_active, s_longest, s_pending, s_task)
    if not id then
      call('DEL', s_sentinel)
      result = false break
    end
    activate(s_task, id, seen, string.format('%d', now))
    local sid, entries = record_session_id or fresh_sid, tonumber(run_entries) or 0
    if sid ~= run_sid then entries = 0 end
    local last = math.max(tonumber(run_fence) or 0, tonumber(record_fence) or 0)
    local fence = begin(s_record, s_run, s_token, not run_fence, last, sid, '["' .. id .. '"]', entries, record_created_at)
    result = {'turn', now, fence, sid, entries, '', {message_record(now, id, msg, seen, redelivered, unique_key)}} break
  until true
  results[#results + 1] = result or {'special'}
  k, a = k + 10, a + 4
end
return results
