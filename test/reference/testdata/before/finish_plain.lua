-- The plain ends of turns, one session's after another's: of one message each,
-- which is done, where there is nothing out of the ordinary about the session.
-- Most turns are so, and this does no more than they need. What it meets that is
-- not plain it puts back, and finish.lua is sent.
--
-- ARGV[1] limits of an event stream      ARGV[3] a transcript's TTL, ms
-- ARGV[2] cap of a transcript, entries   ARGV[4] phase of a next turn
-- ARGV[6] its cap in bytes of memory     ARGV[5] how many bytes a task's msg may have
--
-- and of each turn 13 KEYS, in the order in which they are named below, and
--
--   1 how many entries it has    8 fence of the next turn; '': take none
--   2 prefix of the task hashes  9 Redis' clock, ms, as far as the worker can tell
--   3 token                     10 score of a completed task, seconds
--   4 fence                     11 entries of the transcript with these
--   5 id of the task            12 ended messages that are not counted yet, with this
--   6 its message, completed    13 the turn's start, JSON, if it was not announced
--   7 outcome, JSON: the event     yet, or ''
--     and the task's result     14... the entries
--
-- Answers of each {'next', id, msg, age in ms} and, if the next message has any of
-- them, its redeliveries, and 1 if it has a unique key; {'released'}; or
-- {'special'}: nothing is done. A repetition answers the same, or that it is
-- special.
--
-- An error of a key of one session must not end the script: others' turns have
-- ended in it. So all is done with pcall, of which an error is the answer.

local pcall = redis.pcall
local KEYS, ARGV = KEYS, ARGV
local events_limits, transcript_cap, transcript_ttl, phase = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]
local longest, transcript_bytes = tonumber(ARGV[5]), tonumber(ARGV[6])

-- next_turn(id, head, at): what the worker is told.
local function next_turn(id, head, at)
  local answer = {'next', id, head[1], at - (tonumber(head[2]) or at)}
  if head[3] or head[5] then answer[5], answer[6] = tonumber(head[3]) or 0, head[5] and 1 or 0 end
  return answer
end

local function look_at(task, id) return pcall('HMGET', task .. id, 'msg', 'seen', 'redelivered', 'quiet', 'unique_key') end

-- finish(k, a): the end of the turn whose KEYS and ARGV follow those, or false.
local function finish(k, a)
  local sentinel, run, followups, paused, scheduled, retry, events, transcript, pending, active, completed,
    processed, processed_day = unpack(KEYS, k + 1, k + 13)
  local count, task, token, fence, id, msg, outcome, following_fence, at, score, entries, done, start =
    unpack(ARGV, a + 1, a + 13)
  local r = pcall('HMGET', run, 'fence', 'special', 'rotated', 'hold')
  if pcall('GET', sentinel) ~= token then return false end
  if r[1] ~= fence then
    if r[1] ~= following_fence then return false end
    local taken = string.match(pcall('HGET', run, 'ids') or '', '^%["(.*)"%]$') -- a repetition
    local head = taken and look_at(task, taken)
    return head and head[1] and next_turn(taken, head, at)
  end
  if (r[2] or '') ~= '' or (r[3] or '') ~= '' or pcall('EXISTS', followups, paused, scheduled, retry) ~= 0
    or following_fence == '' and pcall('EXISTS', pending) ~= 0
    or pcall('LREM', active, '1', id) ~= 1 then
    return false
  end

  local following, head, added, len, plain = false, false, false, 0, true
  if following_fence ~= '' then following = pcall('RPOPLPUSH', pending, active) end
  if following then
    local bytes = type(following) == 'string' and pcall('HSTRLEN', task .. following, 'msg')
    plain = type(bytes) == 'number' and bytes <= longest
    head = plain and look_at(task, following)
    if not head or not head[1] or head[4] or r[4] and string.find(r[4], following, 1, true)
      or not string.find(following, '^[%w%-._:@+=~]*$') then
      plain = false -- no assignment of and's: the embedded server would keep what was there before
    end
  end
  if plain then
    added = pcall('ZADD', completed, score, id)
    plain = type(added) == 'number'
  end
  if plain and count ~= '0' then
    len = pcall('RPUSH', transcript, unpack(ARGV, a + 14, a + 13 + count))
    plain = type(len) == 'number'
  end
  local set = plain and pcall('HSET', task .. id, 'state', 'completed', 'result', outcome, 'msg', msg)
  if type(set) ~= 'number' or set == 3 then -- 3: there was no such task
    if set == 3 then pcall('DEL', task .. id) end
    if type(len) == 'number' and len > 0 then pcall('RPOP', transcript, count) end
    if added == 1 then pcall('ZREM', completed, id) end
    if type(following) == 'string' then pcall('LMOVE', active, pending, 'LEFT', 'RIGHT') end
    pcall('RPUSH', active, id)
    return false
  end

  if len > transcript_cap then -- a lower cap than before takes effect by and by
    pcall('LTRIM', transcript, math.min(len - transcript_cap, tonumber(count) + 1000), '-1')
  end
  if len > 0 then
    local size = 0
    for i = a + 14, a + 13 + count do size = size + #ARGV[i] end
    bound_transcript(transcript, math.min(len, transcript_cap), transcript_bytes, tonumber(entries), tonumber(count), size)
  end
  if len > 0 and (len == tonumber(count) or not following) then pcall('PEXPIRE', transcript, transcript_ttl) end
  announce(run, events, events_limits, outcome, start)
  if not following or done == '10' then
    if not pcall('SET', processed_day, done, 'NX', 'EX', '7776000') then pcall('INCRBY', processed_day, done) end
    pcall('INCRBY', processed, done)
    done = '0'
  end
  if not following then
    pcall('DEL', sentinel)
    pcall('HSET', run, 'token', '', 'phase', 'idle', 'last', token .. ' ' .. fence .. ' released',
      'entries', entries, 'done', '0', 'ended_at', at)
    return {'released'}
  end
  if head[2] then
    pcall('HSET', task .. following, 'state', 'active')
  else
    pcall('HSET', task .. following, 'state', 'active', 'seen', at)
  end
  pcall('HSET', run, 'fence', following_fence, 'entries', entries, 'done', done, 'ids', '["' .. following .. '"]', 'started_at', at)
  if phase ~= 'running' then pcall('HSET', run, 'phase', phase) end
  return next_turn(following, head, at)
end

local answers, k, a = {}, 0, 6
while KEYS[k + 1] do
  answers[#answers + 1] = finish(k, a) or {'special'}
  k, a = k + 13, a + 13 + ARGV[a + 1]
end
return answers
