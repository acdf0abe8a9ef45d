-- Extends the hold of its token, and may record its phase.
--
-- KEYS 1 sentinel, 2 run
-- ARGV 1 token
--      2 ttl, ms
--      3 keep, ms: how long the record lasts
--      4 phase to record; empty: leave it
-- answer 1: extended; 0: the token does not hold the lock, nothing was written
local sentinel, run, token, ttl, phase = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[4]

if not owns(sentinel, token) then
  return 0
end
local record = redis.call('GET', run)
redis.call('PEXPIRE', sentinel, ttl)
if record and phase ~= '' then
  local before, after = string.match(record, '^(%d+ %d+ )%a+(.*)$')
  if before then
    redis.call('SET', run, before .. phase .. after)
  end
end
redis.call('PEXPIRE', run, ARGV[3])
return 1
