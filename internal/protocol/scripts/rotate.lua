-- Code generated from ../lua/rotate.lua by go generate; DO NOT EDIT.
--
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

local call, pcall, try = redis.call, redis.pcall, pcall
local KEYS, ARGV = KEYS, ARGV
local s_sentinel, s_run, s_record, s_resume, s_audit, s_by = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], ARGV[1]
local function fields_1(key)
  local v = call('HMGET', key, 'phase', 'fence', 'question', 'answered', 'other_agent', 'stop', 'rollback', 'interrupt')
  return {phase = v[1], fence = v[2], question = v[3], answered = v[4], other_agent = v[5], stop = v[6], rollback = v[7], interrupt = v[8]}
end

-- DEFAULT_AGENT is the agent of sessions that have no other one: internal/protocol/agents.
local DEFAULT_AGENT = 'default'
local AUDIT_LINES, AUDIT_TTL = '-1000', '2592000' -- the last thousand, for 30 days

-- quote(text) returns a JSON string.
local function quote(text)
  if string.find(text, '^[%w%-._:@+=~]*$') then return '"' .. text .. '"' end
  return cjson.encode(text)
end

-- audit(s, did, what, now) appends a line to the session's audit: s.by did something to what. It fails
-- no move: a key of a wrong type is skipped.
local function audit(s_audit, s_by, did, what, now)
  pcall('RPUSH', s_audit, '{"at":' .. string.format('%d', now) .. ',"by":' .. quote(s_by) .. ',"did":"' .. did .. '","what":' .. quote(what) .. '}')
  pcall('LTRIM', s_audit, AUDIT_LINES, '-1')
  pcall('EXPIRE', s_audit, AUDIT_TTL)
end

-- begun(run) returns whether a turn has begun and not ended. Without a sentinel it is parked, or its owner died.
local function begun(run) return run.fence and (run.phase == 'starting' or run.phase == 'running' or run.phase == 'parked') end

-- noted_ids(dropped) returns the ids of the record's dropped as an array. If it cannot be read, the
-- array is empty.
local function noted_ids(dropped)
  local ok, ids = try(cjson.decode, dropped or '')
  if ok and type(ids) == 'table' then return ids end
  return {}
end

-- forget_notes(s) deletes the notes: their transcript was replaced.
local function forget_notes(s_record)
  local v = call('HMGET', s_record, 'dropped', 'omitted', 'omitted_told')
  local n_dropped, n_omitted, n_omitted_told = v[1], v[2], v[3]
  local gone = (tonumber(n_omitted) or 0) + #noted_ids(n_dropped)
  if gone == (tonumber(n_omitted_told) or 0) then return end
  call('HSET', s_record, 'dropped', '', 'omitted', string.format('%d', gone), 'omitted_told', string.format('%d', gone))
end

-- Redis' clock in milliseconds. No script reads another clock.
local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- of_turn(run, value) returns what stands after the fence in the value of one of run's fields, or '' if it is another
-- turn's.
local function of_turn(run, value)
  local of, what = string.match(value or '', '^(%d+) (.*)$')
  return of == run.fence and what or ''
end

-- requested(run, fence) returns 'stop', 'rollback' or 'interrupt' if that end of the turn was
-- requested, or ''.
local function requested(run, fence)
  if run.stop == fence then return 'stop' end
  if run.rollback == fence then return 'rollback' end
  if run.interrupt == fence then return 'interrupt' end
  return ''
end

local fresh_sid, sid, deadline, agent = ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5]

local v = call('HMGET', s_record, 'session_id', 'created_at', 'agent', 'fence')
local record_session_id, record_created_at, record_agent, record_fence = v[1], v[2], v[3], v[4]
local run = fields_1(s_run)
local owner, turn = call('EXISTS', s_sentinel) == 1, begun(run)
if record_session_id == fresh_sid then
  return {fresh_sid, 1, turn and not owner and requested(run, run.fence) ~= '' and 1 or 0}
end
if sid ~= '' and record_session_id ~= sid then return {record_session_id or '', 0, 0} end
local now = now_ms()
if now > deadline then return {'', -1, 0} end
local bound = record_agent or record_fence and DEFAULT_AGENT
local changes = agent ~= '' and agent ~= bound
local question = string.match(run.question or '', '^%d+ %d+ ')
local asks = run.phase == 'parked' and question and string.match(question, '^%d+') == run.fence and string.sub(run.answered or '', 1, #question) ~= question
local ends = turn and not owner and (asks or changes)
call('HLEN', s_resume)
call('HSET', s_record, 'v', '1', 'session_id', fresh_sid, 'updated_at', string.format('%d', now), 'created_at', record_created_at or string.format('%d', now))
call('HDEL', s_record, 'title', 'title_by')
forget_notes(s_record)
if run.fence then call('HSET', s_run, 'rotated', fresh_sid) end
call('HDEL', s_run, 'unsaid') -- it is of the old one
if changes then
  call('HSET', s_record, 'agent', agent)
  if turn and of_turn(run, run.other_agent) == '' then
    call('HSET', s_run, 'other_agent', run.fence .. ' ' .. bound)
  end
end
if not turn then call('HDEL', s_resume, 'pending', 'reason', 'marked_at', 'suspended') end
if ends then call('HSET', s_run, 'interrupt', run.fence) end
audit(s_audit, s_by, 'new', agent, now)
return {fresh_sid, 1, turn and not owner and (ends or requested(run, run.fence) ~= '') and 1 or 0}
