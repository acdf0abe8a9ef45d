-- title: names the session's transcript. What a user says is never overwritten by
-- what an agent proposes.
--
-- ARGV[2] token and ARGV[3] fence of the agent's turn, or '' and '' of a user
-- ARGV[4] the title; '': none
--
-- Answers {'ok'}, {'kept'} (the user's) or {'lost'}.

local users = ARGV[2] == ''
local by = call('HGET', record, 'title_by')
if not users then
  local r = call('HMGET', run, 'token', 'fence', 'rotated')
  if r[1] ~= ARGV[2] or r[2] ~= ARGV[3] or not owns(sentinel, ARGV[2]) then return {'lost'} end
  if by == 'user' or (r[3] or '') ~= '' then return {'kept'} end
end
local now = int(now_ms())
if call('HEXISTS', record, 'created_at') == 0 then call('HSET', record, 'v', '1', 'created_at', now) end
if ARGV[4] == '' then
  call('HDEL', record, 'title', 'title_by')
else
  call('HSET', record, 'title', ARGV[4], 'title_by', users and 'user' or 'agent', 'updated_at', now)
end
return {'ok'}
