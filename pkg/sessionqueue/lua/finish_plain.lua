-- The plain end of a turn, tried before finish.lua: one message, which is done,
-- no partial, and nothing out of the ordinary about the session. Most turns are
-- so, and this does no more than they need. It reads less before it writes;
-- whatever it meets that is not plain, it puts back what it has moved, and
-- finish.lua does it all. Tasks that a stock asynq.Server is to try again it
-- leaves to a whole claim, after a sweep at the latest.
--
-- ARGV as in finish.lua. Answers {'plain', message as in claim}, where finish.lua
-- answers 'next', or {'released', 0, 0}.

if ARGV[4] ~= '' then
  local token, fence, at, id, release = ARGV[2], ARGV[3], ARGV[8], ARGV[13], ARGV[11] == ''
  local r = call('HMGET', run, 'fence', 'entries', 'done', 'hold', 'rotated')
  local plain = r[1] == fence and (r[5] or '') == '' and owns(sentinel, token)
    and call('EXISTS', paused, scheduled, followups, resume) == 0
    and not (release and call('EXISTS', pending) == 1)
    and call('LREM', active, '1', id) == 1
  if plain then
    -- What a key of a wrong type may fail is undone below, last things first.
    local following, head, added, len, set = false, false, false, 0, false
    if not release then following = pcall('RPOPLPUSH', pending, active) end
    if following then
      plain = type(following) == 'string'
      if plain then
        head = pcall('HMGET', task .. following, 'msg', 'seen', 'redelivered', 'quiet', 'unique_key')
        plain = head[1] and not head[4] and not (r[4] and string.find(r[4], following, 1, true))
          and string.find(following, '^[%w%-._:@+=~]*$')
      end
    end
    if plain then
      added = pcall('ZADD', completed, ARGV[9], id)
      plain = type(added) == 'number'
    end
    if plain and ARGV[14] then
      len = pcall('RPUSH', transcript, unpack(ARGV, 14))
      plain = type(len) == 'number'
    end
    if plain then
      set = pcall('HSET', task .. id, 'state', 'completed', 'result', ARGV[5], 'msg', ARGV[4])
      plain = type(set) == 'number' and set < 3 -- else there was no such task
    end
    if plain then
      local cap, most, ttl = string.match(ARGV[7], '(%d+) (%d+) (%d+)')
      local count, done = #ARGV - 13, (tonumber(r[3]) or 0) + 1
      local entries = int((tonumber(r[2]) or 0) + count)
      if len > tonumber(most) then call('LTRIM', transcript, '-' .. most, '-1') end
      if count > 0 and (len == count or not following) then call('PEXPIRE', transcript, ttl) end
      if ARGV[6] == '' then
        pcall('XADD', events, 'MAXLEN', '~', cap, '*', 'e', ARGV[5])
      else
        pcall('XADD', events, 'MAXLEN', '~', cap, '*', 's', ARGV[6], 'e', ARGV[5])
      end
      if not following or done >= 10 then
        if pcall('INCRBY', processed_day, done) == done then call('EXPIRE', processed_day, '7776000') end
        pcall('INCRBY', processed, done)
        done = '0'
      end
      pcall('ZREM', lease, id)
      if not following then
        call('DEL', sentinel)
        call('HSET', run, 'token', '', 'phase', 'idle', 'last', token .. ' ' .. fence .. ' released',
          'entries', entries, 'done', '0')
        return {'released', 0, 0}
      end
      local seen, task_key = head[2], task .. following
      if seen then
        call('HSET', task_key, 'state', 'active')
      else
        call('HSET', task_key, 'state', 'active', 'seen', at)
        seen = at
      end
      pcall('ZADD', lease, ARGV[10], following)
      call('HSET', run, 'fence', at, 'entries', entries, 'done', done, 'ids', '["' .. following .. '"]',
        'last', token .. ' ' .. fence .. ' next', 'started_at', at)
      if ARGV[11] ~= 'running' then call('HSET', run, 'phase', ARGV[11]) end
      local message = {following, head[1], at - seen}
      if head[3] or head[5] then message[4], message[5] = tonumber(head[3]) or 0, head[5] and 1 or 0 end
      return {'plain', message}
    end
    if set == 3 then call('DEL', task .. id) end
    if type(len) == 'number' and len > 0 then call('RPOP', transcript, #ARGV - 13) end
    if added == 1 then call('ZREM', completed, id) end
    if type(following) == 'string' then call('LMOVE', active, pending, 'LEFT', 'RIGHT') end
    call('RPUSH', active, id)
  end
end
