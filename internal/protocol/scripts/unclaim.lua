-- Code generated from ../lua/unclaim.lua by go generate; DO NOT EDIT.
--
-- unclaim: takes back a claim by its token: its reply was lost, or the agent cannot be started. The turn stays
-- begun, and its next claim goes on with it. It is neither an attempt nor an interruption.
--
-- KEYS sentinel run pending lease scheduled retry
-- ARGS
--   s.task       prefix of the session's task hashes
--   s.token      of the claim
--   gives flag   the owner gives the turn back, and ends it itself if that was requested
-- RETURNS
--   'released' at:int now:int     at: when it can be claimed again, ms; 0: never
--   'requested' request    gives: 'stop', 'interrupt' or 'rollback': end the turn that way instead;
--     nothing is written
--   'lost'                the claim was not carried out, or its sentinel has expired

local call, pcall, try = redis.call, redis.pcall, pcall
local KEYS, ARGV = KEYS, ARGV
local s_sentinel, s_run, s_pending, s_lease, s_scheduled, s_retry, s_task, s_token = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], ARGV[1], ARGV[2]
local function fields_1(key)
  local v = call('HMGET', key, 'token', 'fence', 'phase', 'ids', 'hold', 'last', 'stop', 'rollback', 'interrupt')
  return {token = v[1], fence = v[2], phase = v[3], ids = v[4], hold = v[5], last = v[6], stop = v[7], rollback = v[8], interrupt = v[9]}
end

-- next_at(s, now) returns when a message can be taken: now or earlier, a later ms, or false for
-- never. For messages that are collected the time may be too early: the claim finds the end of
-- their quiet window.
local function next_at(s_pending, s_retry, s_run, s_scheduled, s_task, now)
  local id = call('LINDEX', s_pending, '-1')
  if id then
    local quiet = pcall('HGET', s_task .. id, 'quiet')
    return type(quiet) == 'string' and tonumber(string.match(quiet, '^%d+')) or now
  end
  if call('HGET', s_run, 'stopping') == '1' then return now end -- for the claim to archive
  if call('EXISTS', s_scheduled, s_retry) == 0 then return false end
  local at = false
  for _, zset in ipairs({s_scheduled, s_retry}) do
    local z = call('ZRANGE', zset, 0, 0, 'WITHSCORES')
    if z[2] and (not at or tonumber(z[2]) * 1000 < at) then at = tonumber(z[2]) * 1000 end
  end
  return at
end

-- requested(run, fence) returns 'stop', 'rollback' or 'interrupt' if that end of the turn was
-- requested, or ''.
local function requested(run, fence)
  if run.stop == fence then return 'stop' end
  if run.rollback == fence then return 'rollback' end
  if run.interrupt == fence then return 'interrupt' end
  return ''
end

-- parked_until(run) returns until when (ms) a parked turn waits, 0 if its end was requested, or false if
-- none is parked. A parked turn has no owner: its messages stay in active.
local function parked_until(run)
  if run.phase ~= 'parked' then return false end
  if requested(run, run.fence) ~= '' then return 0 end
  return tonumber(run.hold) or 0
end

-- claimable_at(s, run, now) returns when a turn can be taken, as next_at, or a parked one.
local function claimable_at(s_pending, s_retry, s_run, s_scheduled, s_task, run, now)
  local till = parked_until(run)
  if till then return math.max(till, now) end
  return next_at(s_pending, s_retry, s_run, s_scheduled, s_task, now)
end

-- Redis' clock in milliseconds. No script reads another clock.
local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local gives = ARGV[3] == '1'

local now = now_ms()
local run = fields_1(s_run)
local mine = s_token .. ' - released' -- no fence: the caller does not know it
if run.last == mine then return {'released', claimable_at(s_pending, s_retry, s_run, s_scheduled, s_task, run, now) or 0, now} end
if run.token ~= s_token or not (redis.call('GET', s_sentinel) == s_token) then return {'lost'} end
local request = requested(run, run.fence)
if gives and request ~= '' then return {'requested', request} end
local ids = cjson.decode(run.ids)

call('DEL', s_sentinel)
for _, id in ipairs(ids) do pcall('ZREM', s_lease, id) end
call('HSET', s_run, 'token', '', 'phase', 'parked', 'hold', '0', 'last', mine)
return {'released', now, now}
