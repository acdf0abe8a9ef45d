-- asynq's leases, which asynqmon shows. It counts an active task as orphaned when its lease is
-- over.

-- lease_end(now, ttl) returns the score of a lease: the end of the sentinel, in whole seconds.
local function lease_end(now, ttl) return int(math.floor((now + ttl) / 1000)) end

-- leased(s, id, now) returns until when (ms) a stock asynq.Server works on an active task, or
-- false. asynq's dequeue deletes pending_since, and a claim keeps it. A dead letter that asynqmon's Run
-- put into the queue does not have it, but a claim's lease on such a task ends with the sentinel,
-- unless the sentinel is deleted by hand.
local function leased(s, id, now)
  local score = call('ZSCORE', s.lease, id)
  score = score and tonumber(score) * 1000
  if not score or score <= now or call('HEXISTS', s.task .. id, 'pending_since') == 1 then return false end
  return math.min(score, now + 1000)
end
