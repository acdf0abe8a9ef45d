-- mark: a drain's time is up, the turn is about to be cut off. One that runs is
-- marked to be resumed, before it is interrupted; one that has no agent yet is
-- kept from starting and needs no mark; nor does one that somebody has asked to
-- end, which is not given back.
--
-- ARGV[4] sentinel's TTL, ms
-- ARGV[5] reason
-- ARGV[6] interruptions in a row that suspend the session
--
-- Answers {'marked'}, {'suspended'} (it was already), {'starting'}, {'asked'} or
-- {'lost'}.

if not owned then return {'lost'} end
local now, phase = now_ms(), call('HGET', run, 'phase')
local m, rotated = resume_record(), (r[6] or '') ~= ''
local asking = asked()

call('PEXPIRE', sentinel, ARGV[4])
if asking ~= '' then return {'asked'} end
if phase ~= 'running' then
  call('HSET', run, 'nostart', fence)
  return {'starting'}
end
if m.suspended and m.fence ~= fence then return {'suspended'} end
if interrupt(m, fence, ARGV[5], rotated, now, tonumber(ARGV[6])) then store_interruption(m) end -- else a repetition
return {'marked'}
