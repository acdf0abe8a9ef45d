-- Renews the lease of the lock's holder.
--
-- KEYS sentinel run
-- ARGV token
--      ttl         ms
--      record_ttl  ms
-- returns 1: renewed; 0: the token does not have the lock, nothing was written
local sentinel, run = unpack(KEYS)
local token, ttl, record_ttl = unpack(ARGV)

if not owns(sentinel, token) then
  return 0
end
redis.call('PEXPIRE', sentinel, ttl)
redis.call('PEXPIRE', run, record_ttl)
return 1
