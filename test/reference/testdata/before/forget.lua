-- forget: a session that nobody has used for long leaves no record behind, and none
-- of asynq's counters that have no TTL. Not while it holds a task or an owner.
--
-- KEYS[last] the session's state
-- ARGV[2] age at which it goes, ms
--
-- Answers 1 if it is gone.

if call('EXISTS', sentinel, pending, active, scheduled, retry, completed, archived, stopped) > 0 then return 0 end
local updated = tonumber(call('HGET', record, 'updated_at')) or tonumber(call('HGET', record, 'created_at')) or 0
local ended = tonumber(call('HGET', run, 'ended_at')) or 0
if now_ms() - math.max(updated, ended) < tonumber(ARGV[2]) then return 0 end
call('UNLINK', run, record, followups, resume, events, transcript, partial, lease, processed, failed, KEYS[#KEYS])
return 1
