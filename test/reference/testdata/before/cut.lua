-- How a turn ends that is not over, for whoever ends it: the claim that finds its
-- owner dead, a drain, or a failed attempt. Its messages go back to the head of the
-- line. What becomes of its resume mark, its partial and the count of interruptions
-- is decided here and nowhere else. After session.lua.

-- resume_record(): the session's resume record.
local function resume_record()
  local m = call('HMGET', resume, 'pending', 'reason', 'marked_at', 'interruptions', 'fence', 'suspended', 'carried')
  return {pending = m[1] == '1', reason = m[2] or '', marked_at = tonumber(m[3]), interruptions = tonumber(m[4]) or 0,
    fence = m[5], suspended = m[6] == '1', carried = m[7]}
end

-- interrupt(m, of, reason, rotated, now, limit): the turn with fence of was
-- interrupted: m, the record, counts it and is marked. limit interruptions in a row
-- suspend the session. Returns whether m has changed: a turn is counted once, a
-- suspended session keeps its record, and where the session id was rotated meanwhile
-- the next turn is in another conversation, which this is no concern of.
local function interrupt(m, of, reason, rotated, now, limit)
  if m.suspended or m.fence == of or rotated then return false end
  m.interruptions, m.fence = m.interruptions + 1, of
  m.pending, m.reason, m.marked_at = true, reason, now
  m.suspended = m.interruptions >= limit
  return true
end

-- store_interruption(m): writes what interrupt has changed.
local function store_interruption(m)
  call('HSET', resume, 'pending', '1', 'reason', m.reason, 'marked_at', int(m.marked_at),
    'fence', m.fence, 'interruptions', m.interruptions)
  if m.suspended then call('HSET', resume, 'suspended', '1') end
  call('HSET', run, 'special', '1')
end

-- leave_conversation(): the next turn is in another one: the mark and the partial
-- were the old one's.
local function leave_conversation()
  call('HDEL', resume, 'pending', 'reason', 'marked_at')
  call('DEL', partial)
end

-- put_back(id, prefix, as_it_was): a message of the turn goes back to the head of the
-- line, to be a turn of its own, or as it was before the turn. Call it for the newest
-- first. False: it is not in the turn any more.
local function put_back(id, prefix, as_it_was)
  pcall('ZREM', lease, id)
  if call('LREM', active, 1, id) == 0 then return false end
  call('RPUSH', pending, id)
  call('HSET', task .. id, 'state', 'pending')
  if not as_it_was then call('HDEL', task .. id, 'quiet', 'first') end
  pcall('HDEL', followups, own_id(prefix, id)) -- of one that was steered in
  return true
end
