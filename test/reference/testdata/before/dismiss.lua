-- dismiss: one of several messages of a turn is not to be run: it becomes a dead
-- letter, and the turn goes on without it.
--
-- ARGV[4] sentinel's TTL, ms       ARGV[7] outcome, JSON
-- ARGV[5] task id                  ARGV[8] limits of the event stream
-- ARGV[6] the reason               ARGV[9] its message id
--
-- Answers {'ok'} or {'lost'}.

if not owned then return {'lost'} end
local now, ids, rest = now_ms(), cjson.decode(call('HGET', run, 'ids')), {}
for _, id in ipairs(ids) do
  if id ~= ARGV[5] then rest[#rest + 1] = id end
end
local msg, unique = load(ARGV[5])
call('ZCARD', archived)
call('LLEN', active)

call('PEXPIRE', sentinel, ARGV[4])
if #rest == #ids then return {'ok'} end -- a repetition
call('HSET', run, 'ids', cjson.encode(rest))
call('LREM', active, -1, ARGV[5])
pcall('ZREM', lease, ARGV[5])
pcall('HDEL', followups, ARGV[9])
if msg then archive(ARGV[5], msg, unique, ARGV[6], ARGV[7], now) end
announce(run, events, ARGV[8], ARGV[7])
return {'ok'}
