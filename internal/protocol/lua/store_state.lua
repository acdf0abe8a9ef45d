-- store_state: stores the agent state for the session's next turns.
--
-- KEYS sentinel run state
-- ARGS
--   s.token
--   s.fence int
--   ttl int       the sentinel's, ms
--   content       the state, JSON; '': delete it
--   state_ttl int  ms
-- RETURNS
--   'ok'
--   'lost'

local run = fields(s.run, 'token', 'fence')
if not owned(s, run) then return lost{} end
call('PEXPIRE', s.sentinel, ttl)
if content == '' then
  call('DEL', s.state)
else
  call('SET', s.state, content, 'PX', state_ttl)
end
return ok{}
