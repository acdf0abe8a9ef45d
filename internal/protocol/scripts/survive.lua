-- Code generated from ../lua/survive.lua by go generate; DO NOT EDIT.
--
-- survive: records that an owner lives that has lost its lease and wound down its turn. So the loss
-- counts neither as a death nor as an interruption. If a claim has counted it already, the count is
-- taken back; a message that was given up, or a suspension, stays.
--
-- KEYS sentinel run resume
-- ARGS
--   s.task       prefix of the session's task hashes
--   s.token      of the lost claim
--   s.fence int  of its last turn
--   ids list     of the turn's tasks
-- RETURNS
--   result: now:int free:flag     free: 1 if this has released the session. Else its sentinel expired
--     earlier, and reap finds it

local call, pcall, try = redis.call, redis.pcall, pcall
local KEYS, ARGV = KEYS, ARGV
local s_sentinel, s_run, s_resume, s_task, s_token, s_fence = KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2], ARGV[3]
local function fields_1(key)
  local v = call('HMGET', key, 'state', 'deaths', 'died')
  return {state = v[1], deaths = v[2], died = v[3]}
end

-- IN_DOUBT is the sentinel's value while a dead owner has time to report that it lives.
local IN_DOUBT = 'in doubt'

-- LEASE_LOST is the reason if the turn's owner lost its lease and lives.
local LEASE_LOST = 'lease_lost'

-- load_mark(s) returns the session's resume record.
local function load_mark(s_resume)
  local v = call('HMGET', s_resume, 'pending', 'reason', 'marked_at', 'interruptions', 'fence', 'suspended', 'crashes', 'runs', 'drained_at')
  local m_pending, m_reason, m_marked_at, m_interruptions, m_fence, m_suspended, m_crashes, m_runs, m_drained_at = v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9]
  return {pending = m_pending == '1', reason = m_reason or '', marked_at = tonumber(m_marked_at), interruptions = tonumber(m_interruptions) or 0,
    fence = m_fence, suspended = m_suspended == '1', crashes = m_crashes,
    runs = tonumber(m_runs) or 0, drained_at = tonumber(m_drained_at)}
end

-- Redis' clock in milliseconds. No script reads another clock.
local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- without_fence(list, fence) returns the list without this one, or false if it is not there.
local function without_fence(list, fence)
  local padded = ' ' .. (list or '')
  local at, last = string.find(padded, ' ' .. fence .. ' ', 1, true)
  return at and string.sub(padded, 2, at) .. string.sub(padded, last + 1)
end

local at = 4
local function list()
  local l, n = {}, tonumber(ARGV[at])
  for i = 1, n do l[i] = ARGV[at + i] end
  at = at + n + 1
  return l
end
local ids = list()

local v = call('HMGET', s_run, 'token', 'fence', 'phase', 'survived')
local run_token, run_fence, run_phase, run_survived = v[1], v[2], v[3], v[4]
-- A full Redis refuses a script only until its first write, so that one frees memory.
call('HDEL', s_run, '')
if run_token == s_token and run_fence == s_fence and run_phase ~= 'idle' then
  local owner = call('GET', s_sentinel)
  local freed = s_fence .. ' freed' -- for a repetition
  local free = owner == s_token or owner == IN_DOUBT or not owner and run_survived == freed
  call('HSET', s_run, 'survived', free and freed or s_fence)
  if free and owner then call('DEL', s_sentinel) end
  return {now_ms(), free and 1 or 0}
end

local mark, tasks = load_mark(s_resume), {}
for _, id in ipairs(ids) do
  local t = fields_1(s_task .. id)
  local rest = (t.state == 'pending' or t.state == 'active') and without_fence(t.died, s_fence)
  if rest then tasks[#tasks + 1] = {id = id, deaths = math.max((tonumber(t.deaths) or 1) - 1, 0), rest = rest} end
end
for _, t in ipairs(tasks) do call('HSET', s_task .. t.id, 'deaths', string.format('%d', t.deaths), 'died', t.rest) end
local rest = not mark.suspended and without_fence(mark.crashes, s_fence)
local progressed = not mark.suspended and not rest and without_fence(mark.crashes, s_fence .. '+')
if rest or progressed then
  call('HSET', s_resume, 'crashes', rest or progressed, 'interruptions', string.format('%d', (math.max(mark.interruptions - (rest and 1 or 0), 0))),
    'runs', string.format('%d', (math.max(mark.runs - 1, 0))))
  if mark.fence == s_fence and mark.reason == 'crash' then call('HSET', s_resume, 'reason', LEASE_LOST) end
end
return {now_ms(), 0}
