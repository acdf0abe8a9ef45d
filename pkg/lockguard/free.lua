-- release, the fast path: the token has the lock and nobody waits. It comes
-- before the prelude, whose definitions it does not pay for. In any other case
-- release.lua follows.
local sentinel, run, waiters, waiting, released = unpack(KEYS)
local token, may_wait = unpack(ARGV)

local mine = redis.call('GET', sentinel) == token
if mine and redis.call('EXISTS', waiters) == 0 then
  redis.call('RENAME', sentinel, released)
  return 1
end
