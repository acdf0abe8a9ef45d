-- renew: the sentinel and asynq's lease of the whole turn. Needs the token only:
-- the owner may have gone on to the next turn meanwhile.
--
-- ARGV[4] sentinel's TTL, ms
--
-- Answers {'ok', fence, what is asked of that fence, messages waiting, 1 if one of
-- them is to be steered in, number of the last question that was answered, the
-- answer, now} or {'lost'}.

if r[1] ~= token or not owns(sentinel, token) then return {'lost'} end
local now, ids = now_ms(), cjson.decode(call('HGET', run, 'ids'))
local ends, waiting = lease_end(now, tonumber(ARGV[4])), call('LLEN', pending)
local heard = fence == r[2] -- else it knows of the turn before
fence = r[2]
local asking, steer = asked()
local of, question, answer = string.match(call('HGET', run, 'answered') or '', '^(%d+) (%d+) (%S+)')
if of ~= fence then question, answer = 0, '' end

call('PEXPIRE', sentinel, ARGV[4])
call('HSET', run, 'special', '1')
if heard then hear_of_owner() end
for _, id in ipairs(ids) do pcall('ZADD', lease, ends, id) end
return {'ok', tonumber(fence), asking, waiting, steer and 1 or 0, tonumber(question), answer, now}
