-- Writes what the ends of turns and the starts of the next ones leave in Redis, and nothing else:
-- it checks each sentinel and reads no other key.
--
-- of each turn
-- KEYS sentinel, run, pending, active, completed, transcript, events
-- ARGV prefix of the tasks, token, id, message, result, start, fence, now,
--      end of the retention, two entries
--
-- Returns for each the next message's id and text, or ''.

local call, KEYS, ARGV, answers, a = redis.call, KEYS, ARGV, {}, 0
for k = 0, #KEYS - 1, 7 do
  local task, token, id, msg, result, start, fence, now, kept, first, second = unpack(ARGV, a + 1, a + 11)
  local sentinel, run, pending, active, completed, transcript, events = unpack(KEYS, k + 1, k + 7)
  if call('GET', sentinel) ~= token then return redis.error_reply('the sentinel is gone') end
  call('LREM', active, '1', id)
  call('ZADD', completed, kept, id)
  call('HSET', task .. id, 'state', 'completed', 'result', result, 'msg', msg)
  call('RPUSH', transcript, first, second)
  call('XADD', events, '*', 's', start, 'e', result)
  local following = call('RPOPLPUSH', pending, active)
  if following then
    call('HSET', task .. following, 'state', 'active', 'seen', now)
    call('HSET', run, 'fence', fence, 'ids', following, 'started_at', now)
    answers[#answers + 1] = {following, call('HGET', task .. following, 'msg')}
  else
    call('DEL', sentinel)
    answers[#answers + 1] = ''
  end
  a = a + 11
end
return answers
