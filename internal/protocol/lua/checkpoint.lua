-- checkpoint: stores the running turn's entries so far, in case it is interrupted.
--
-- KEYS sentinel run record partial
-- ARGS
--   s.token
--   s.fence int
--   ttl int         the sentinel's, ms
--   content         the partial, JSON
--   partial_ttl int  ms
-- RETURNS
--   'ok'
--   'lost'

local run = fields(s.run, 'token', 'fence', 'seq')
if not owned(s, run) then return lost{} end
call('PEXPIRE', s.sentinel, ttl)
call('HSET', s.run, 'special', '1')
confirm_claim(s, run) -- else a crash would set no resume mark for this
call('SET', s.partial, content, 'PX', partial_ttl)
pcall('HSET', s.record, 'updated_at', int(now_ms()))
return ok{}
