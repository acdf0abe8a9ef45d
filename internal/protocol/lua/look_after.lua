-- look_after: reap is to look at sessions no later than in a while, because they are about to be claimed, or
-- are held. One that it is to look at sooner stays as it is; but a score whose time has come may be what
-- reap has just read and takes out, so that session gets another.
--
-- KEYS index
--   the owned index
-- ARGS
--   ttl number        in how many ms
--   sessions list     at most 1,000
-- RETURNS
--   result: moved     how many got another score

local now, moved = now_ms(), {}
local at = now + ttl
local scores = call('ZMSCORE', s.index, unpack(sessions))
for i, session in ipairs(sessions) do
  local score = tonumber(scores[i] or 0)
  if score <= now or score > at then
    moved[#moved + 1], moved[#moved + 2] = int(at), session
  end
end
if #moved > 0 then call('ZADD', s.index, unpack(moved)) end
return result{moved = #moved / 2}
