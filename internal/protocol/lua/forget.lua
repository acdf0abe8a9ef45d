-- forget: deletes the keys of a session that was not used for long, and its counters of asynq,
-- which have no TTL. It skips a session that has a task or an owner.
--
-- KEYS sentinel run record followups resume events transcript partial journal pending active lease scheduled retry completed
-- KEYS processed archived failed stopped state owed outbox deliveries undelivered audit
-- ARGS
--   age number     at which it goes, ms
-- RETURNS
--   result: gone:flag   1 if it is

if call('EXISTS', s.sentinel, s.pending, s.active, s.scheduled, s.retry, s.completed, s.archived, s.stopped, s.owed, s.outbox) > 0 then return result{gone = 0} end
local record = fields(s.record, 'updated_at', 'created_at')
local used = tonumber(record.updated_at) or tonumber(record.created_at) or 0
local ended = tonumber(call('HGET', s.run, 'ended_at')) or 0
if now_ms() - math.max(used, ended) < age then return result{gone = 0} end
call('UNLINK', s.run, s.record, s.followups, s.resume, s.events, s.transcript, s.partial, s.journal, s.lease, s.processed, s.failed, s.state, s.deliveries, s.undelivered, s.audit)
return result{gone = 1}
