-- index_owned: makes reap check sessions after a while at the latest, because they are about to be
-- claimed or are owned. A session with an earlier future score keeps it. A score in the past is
-- replaced: reap may have just read it and be about to remove the session.
--
-- KEYS index
--   the owned index
-- ARGS
--   ttl number        in how many ms
--   sessions list     at most 1,000
-- RETURNS
--   result: moved:int     how many got another score

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
