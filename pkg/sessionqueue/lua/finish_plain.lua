-- The plain end of a turn, tried before finish.lua: one message, which is done,
-- and nothing out of the ordinary about its session. Most turns are so, and this
-- does no more than they need. It reads less before it writes; whatever it meets
-- that is not plain, it puts back what it has moved, and finish.lua does it all.
--
-- ARGV as in finish.lua. Answers {'plain', message as in claim}, where finish.lua
-- answers 'next', or {'released', 0, 0}.

if ARGV[4] ~= '' then
  local token, fence, at, id, release = ARGV[2], ARGV[3], ARGV[9], ARGV[14], ARGV[12] == ''
  local r = call('HMGET', run, 'fence', 'entries', 'done', 'hold', 'rotated')
  local plain = r[1] == fence and (r[5] or '') == '' and owns(sentinel, token)
    and call('EXISTS', paused, scheduled, retry, followups, resume, partial) == 0
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
      added = pcall('ZADD', completed, ARGV[10], id)
      plain = type(added) == 'number'
    end
    if plain and ARGV[15] then
      len = pcall('RPUSH', transcript, unpack(ARGV, 15))
      plain = type(len) == 'number'
    end
    if plain then
      set = pcall('HSET', task .. id, 'state', 'completed', 'result', ARGV[5], 'msg', ARGV[4])
      plain = type(set) == 'number' and set < 3 -- else there was no such task
    end
    if plain then
      local cap, most, ttl = string.match(ARGV[7], '(%d+) (%d+) (%d+)')
      local count, done = #ARGV - 14, (tonumber(r[3]) or 0) + 1
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
          'entries', entries, 'done', '0', 'ended_at', at)
        return {'released', 0, 0}
      end
      if head[2] then
        call('HSET', task .. following, 'state', 'active')
      else
        call('HSET', task .. following, 'state', 'active', 'seen', at)
      end
      pcall('ZADD', lease, ARGV[11], following)
      call('HSET', run, 'fence', ARGV[8], 'entries', entries, 'done', done, 'ids', '["' .. following .. '"]',
        'last', token .. ' ' .. fence .. ' next', 'started_at', at)
      if ARGV[12] ~= 'running' then call('HSET', run, 'phase', ARGV[12]) end
      local message = {following, head[1], at - (tonumber(head[2]) or at)}
      if head[3] or head[5] then message[4], message[5] = tonumber(head[3]) or 0, head[5] and 1 or 0 end
      return {'plain', message}
    end
    if set == 3 then call('DEL', task .. id) end
    if type(len) == 'number' and len > 0 then call('RPOP', transcript, #ARGV - 14) end
    if added == 1 then call('ZREM', completed, id) end
    if type(following) == 'string' then call('LMOVE', active, pending, 'LEFT', 'RIGHT') end
    call('RPUSH', active, id)
  end
end
