-- title: names the session's transcript. An agent's title never replaces the user's.
--
-- KEYS sentinel run record
-- ARGS
--   s.token     of the agent's turn, or '' for the user
--   s.fence int  the same
--   title       '': delete it
-- RETURNS
--   'ok'
--   'kept'      the user's title stays
--   'lost'

local users = s.token == ''
local by = call('HGET', s.record, 'title_by')
if not users then
  local run = fields(s.run, 'token', 'fence', 'rotated')
  if not owned(s, run) then return lost{} end
  if by == 'user' or (run.rotated or '') ~= '' then return kept{} end
end
local now = int(now_ms())
if call('HEXISTS', s.record, 'created_at') == 0 then call('HSET', s.record, 'v', '1', 'created_at', now) end
if title == '' then
  call('HDEL', s.record, 'title', 'title_by')
else
  call('HSET', s.record, 'title', title, 'title_by', users and 'user' or 'agent', 'updated_at', now)
end
return ok{}
