-- unclaim: takes back a claim by its token: its reply was lost, or the agent cannot be started. The turn stays
-- begun, and its next claim goes on with it. It is neither an attempt nor an interruption.
--
-- KEYS sentinel run pending lease scheduled retry
-- ARGS
--   s.task       prefix of the session's task hashes
--   s.token      of the claim
--   gives flag   the owner gives the turn back, and ends it itself if that was requested
-- RETURNS
--   'released' at:int now:int     at: when it can be claimed again, ms; 0: never
--   'requested' request    gives: 'stop', 'interrupt' or 'rollback': end the turn that way instead;
--     nothing is written
--   'lost'                the claim was not carried out, or its sentinel has expired

local now = now_ms()
local run = fields(s.run, 'token', 'fence', 'phase', 'ids', 'hold', 'last', 'stop', 'rollback', 'interrupt')
local mine = s.token .. ' - released' -- no fence: the caller does not know it
if run.last == mine then return released{at = claimable_at(s, run, now) or 0, now = now} end
if run.token ~= s.token or not owns(s.sentinel, s.token) then return lost{} end
local request = requested(run, run.fence)
if gives and request ~= '' then return requested{request = request} end
local ids = cjson.decode(run.ids)

call('DEL', s.sentinel)
for _, id in ipairs(ids) do pcall('ZREM', s.lease, id) end
call('HSET', s.run, 'token', '', 'phase', 'parked', 'hold', '0', 'last', mine)
return released{at = now, now = now}
