-- The line of a lock's waiters. It stands before the scripts that hand the lock
-- over.
--
-- waiters  ZSET token -> place: the first has the lowest
-- waiting  HASH token -> registration: 'until ttl counted channel owner'
--          until    us of Redis' clock, after which the waiter counts as dead
--          ttl      ms for which it will get the lock
--          counted  1: PUBLISH returns how many listen on the channel;
--                   0: it cannot know (Redis Cluster)
--          channel  on which the waiter's process listens

-- How much longer than the lock's TTL its record lasts, ms.
local record_longer = 3600000
-- How long a waiter keeps its place while nobody listens for it, us. If it
-- lives, it connects again, and then calls acquire again.
local grace = 3000000

-- Grants the lock to the first waiter that lives and listens, and returns its
-- token and owner; nil if there is none. asker is the token of a waiter that
-- need not listen, because this script's result tells it. The caller has read
-- all four keys, so none has a wrong type, and has written, so a server that
-- refuses writes fails the script before a waiter is notified.
local function pass_on(sentinel, run, waiters, waiting, fence, now, asker)
  local at, time = 0, tonumber(now)
  while true do
    local token = redis.call('ZRANGE', waiters, at, at)[1]
    if not token then
      return nil
    end
    local registration = redis.call('HGET', waiting, token) or ''
    local ends, rest = string.match(registration, '^(%d+)( .*)$')
    local alive = ends and (token == asker or tonumber(ends) > time)
    local ttl, counted, channel, owner = string.match(rest or '', '^ (%d+) (%d) (%S+) (.*)$')
    local notified = alive and (token == asker or
      redis.call('PUBLISH', channel, token .. ' ' .. fence) > 0 or counted == '0')
    if notified or not alive then
      redis.call('ZREM', waiters, token)
      redis.call('HDEL', waiting, token)
    end
    if notified then
      grant(sentinel, run, token, owner, fence, now, ttl, int(ttl + record_longer))
      return token, owner
    end
    if alive then
      if tonumber(ends) > time + grace then
        redis.call('HSET', waiting, token, int(time + grace) .. rest)
      end
      at = at + 1
    end
  end
end
