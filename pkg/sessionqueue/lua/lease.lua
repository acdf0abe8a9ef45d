-- asynq's leases, which asynqmon shows: a task in active without a live one
-- counts as orphaned.

-- lease_end(now, ttl): the score of a lease: the sentinel's end in seconds. The
-- half second tells Turnstile's leases from those of an asynq.Server.
local function lease_end(now, ttl) return string.format('%d.5', math.ceil((now + ttl) / 1000)) end
