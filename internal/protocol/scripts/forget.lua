-- Code generated from ../lua/forget.lua by go generate; DO NOT EDIT.
--
-- forget: deletes the keys of a session that was not used for long, and its counters of asynq,
-- which have no TTL. It skips a session that has a task or an owner.
--
-- KEYS sentinel run record followups resume events transcript partial journal pending active lease scheduled retry completed
-- KEYS processed archived failed stopped state owed outbox deliveries undelivered audit
-- ARGS
--   age number     at which it goes, ms
-- RETURNS
--   result: gone:flag   1 if it is

local call, pcall, try = redis.call, redis.pcall, pcall
local KEYS, ARGV = KEYS, ARGV
local s_sentinel, s_run, s_record, s_followups, s_resume, s_events, s_transcript, s_partial, s_journal, s_pending, s_active, s_lease, s_scheduled, s_retry, s_completed, s_processed, s_archived, s_failed, s_stopped, s_state, s_owed, s_outbox, s_deliveries, s_undelivered, s_audit = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10], KEYS[11], KEYS[12], KEYS[13], KEYS[14], KEYS[15], KEYS[16], KEYS[17], KEYS[18], KEYS[19], KEYS[20], KEYS[21], KEYS[22], KEYS[23], KEYS[24], KEYS[25]

-- Redis' clock in milliseconds. No script reads another clock.
local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local age = tonumber(ARGV[1])

if call('EXISTS', s_sentinel, s_pending, s_active, s_scheduled, s_retry, s_completed, s_archived, s_stopped, s_owed, s_outbox) > 0 then return {0} end
local v = call('HMGET', s_record, 'updated_at', 'created_at')
local record_updated_at, record_created_at = v[1], v[2]
local used = tonumber(record_updated_at) or tonumber(record_created_at) or 0
local ended = tonumber(call('HGET', s_run, 'ended_at')) or 0
if now_ms() - math.max(used, ended) < age then return {0} end
call('UNLINK', s_run, s_record, s_followups, s_resume, s_events, s_transcript, s_partial, s_journal, s_lease, s_processed, s_failed, s_state, s_deliveries, s_undelivered, s_audit)
return {1}
