-- asynq's leases, which asynqmon shows: a task in active with one that is over
-- counts as orphaned.

-- lease_end(now, ttl): the score of a lease: the sentinel's end, in whole seconds.
local function lease_end(now, ttl) return int(math.floor((now + ttl) / 1000)) end

-- leased(id, now): until when (ms) a stock asynq.Server works on an active task;
-- false: none does. asynq's dequeue deletes pending_since, ours leaves it. A task
-- never has it that asynqmon's Run put in line; but our own lease on one is over
-- when the sentinel is, unless somebody deletes that by hand.
local function leased(id, now)
  local score = call('ZSCORE', lease, id)
  score = score and tonumber(score) * 1000
  -- An earlier version tells its leases by their half second.
  if not score or score <= now or score % 1000 ~= 0 or call('HEXISTS', task .. id, 'pending_since') == 1 then return false end
  return math.min(score, now + 1000)
end
