-- look_after: reap is to look at sessions no later than in a while, because they are
-- about to be claimed, or are held. One that it is to look at sooner stays as it is; but
-- a score whose time has come may be what reap has just read and takes out, so that
-- session gets another.
--
-- KEYS[1] the owned index
-- ARGV[1] in how many ms
-- ARGV[2...] at most 1,000 sessions
--
-- Answers {how many got another score}.

local now, n = now_ms(), #ARGV - 1
local at, moved = now + tonumber(ARGV[1]), {}
local scores = redis.call('ZMSCORE', KEYS[1], unpack(ARGV, 2, n + 1))
for i = 1, n do
  local score = tonumber(scores[i] or 0)
  if score <= now or score > at then
    moved[#moved + 1], moved[#moved + 2] = int(at), ARGV[i + 1]
  end
end
if #moved > 0 then redis.call('ZADD', KEYS[1], unpack(moved)) end
return {#moved / 2}
