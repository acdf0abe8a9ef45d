-- Renews the lease of the lock's holder.
--
-- KEYS 1 sentinel, 2 run
-- ARGV 1 token
--      2 ttl, ms
--      3 keep, ms: how long the record lasts
-- returns 1: renewed; 0: the token does not have the lock, nothing was written
if not owns(KEYS[1], ARGV[1]) then
  return 0
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
redis.call('PEXPIRE', KEYS[2], ARGV[3])
return 1
