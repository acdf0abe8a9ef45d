-- How an unfinished turn ends, whether a claim finds its owner dead, a drain interrupts it, or an
-- attempt failed. Its messages go back to the head of the line. The rules for its resume mark, its
-- partial and the count of interruptions are here.

-- load_mark(s) returns the session's resume record.
local function load_mark(s)
  local m = fields(s.resume, 'pending', 'reason', 'marked_at', 'interruptions', 'fence', 'suspended', 'carried')
  return {pending = m.pending == '1', reason = m.reason or '', marked_at = tonumber(m.marked_at), interruptions = tonumber(m.interruptions) or 0,
    fence = m.fence, suspended = m.suspended == '1', carried = m.carried}
end

-- interrupt(mark, fence, reason, rotated, now, limit) counts the interruption of the turn with this
-- fence in the mark. limit interruptions in a row suspend the session. Returns whether the mark has
-- changed. A turn is counted once, and a suspended session keeps its record. After a rotation
-- nothing is counted, because the next turn is in another conversation.
local function interrupt(mark, fence, reason, rotated, now, limit)
  if mark.suspended or mark.fence == fence or rotated then return false end
  mark.interruptions, mark.fence = mark.interruptions + 1, fence
  mark.pending, mark.reason, mark.marked_at = true, reason, now
  mark.suspended = mark.interruptions >= limit
  return true
end

-- store_interruption(s, mark) writes what interrupt has changed.
local function store_interruption(s, mark)
  call('HSET', s.resume, 'pending', '1', 'reason', mark.reason, 'marked_at', int(mark.marked_at),
    'fence', mark.fence, 'interruptions', mark.interruptions)
  if mark.suspended then call('HSET', s.resume, 'suspended', '1') end
  call('HSET', s.run, 'special', '1')
end

-- leave_conversation(s) clears the mark and deletes the partial: the next turn is in another
-- conversation.
local function leave_conversation(s)
  call('HDEL', s.resume, 'pending', 'reason', 'marked_at')
  call('DEL', s.partial)
end

-- requeue_message(s, id, as_it_was) puts a message of the turn back at the head of the line. It is
-- to be a turn of its own, or with as_it_was the same as before the turn. Call it for the newest
-- message first. Returns false if the message has left the turn.
local function requeue_message(s, id, as_it_was)
  pcall('ZREM', s.lease, id)
  if call('LREM', s.active, 1, id) == 0 then return false end
  call('RPUSH', s.pending, id)
  call('HSET', s.task .. id, 'state', 'pending')
  if not as_it_was then call('HDEL', s.task .. id, 'quiet', 'first') end
  pcall('HDEL', s.followups, own_id(s, id)) -- that of a message that was steered in
  return true
end
