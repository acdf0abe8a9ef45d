-- How a turn ends that is not over, for whoever ends it: the claim that finds its owner dead, a
-- drain, or a failed attempt. Its messages go back to the head of the line. What becomes of its
-- resume mark, its partial and the count of interruptions is decided here and nowhere else.

-- load_mark(s): the session's resume record.
local function load_mark(s)
  local m = fields(s.resume, 'pending', 'reason', 'marked_at', 'interruptions', 'fence', 'suspended', 'carried')
  return {pending = m.pending == '1', reason = m.reason or '', marked_at = tonumber(m.marked_at), interruptions = tonumber(m.interruptions) or 0,
    fence = m.fence, suspended = m.suspended == '1', carried = m.carried}
end

-- interrupt(mark, fence, reason, rotated, now, limit): the turn with fence was interrupted: the
-- mark counts it. limit interruptions in a row suspend the session. Returns whether the mark
-- has changed: a turn is counted once, a suspended session keeps its record, and where the
-- session id was rotated meanwhile the next turn is in another conversation, which this is no
-- concern of.
local function interrupt(mark, fence, reason, rotated, now, limit)
  if mark.suspended or mark.fence == fence or rotated then return false end
  mark.interruptions, mark.fence = mark.interruptions + 1, fence
  mark.pending, mark.reason, mark.marked_at = true, reason, now
  mark.suspended = mark.interruptions >= limit
  return true
end

-- store_interruption(s, mark): writes what interrupt has changed.
local function store_interruption(s, mark)
  call('HSET', s.resume, 'pending', '1', 'reason', mark.reason, 'marked_at', int(mark.marked_at),
    'fence', mark.fence, 'interruptions', mark.interruptions)
  if mark.suspended then call('HSET', s.resume, 'suspended', '1') end
  call('HSET', s.run, 'special', '1')
end

-- leave_conversation(s): the next turn is in another one: the mark and the partial were the old
-- one's.
local function leave_conversation(s)
  call('HDEL', s.resume, 'pending', 'reason', 'marked_at')
  call('DEL', s.partial)
end

-- requeue_message(s, id, as_it_was): a message of the turn goes back to the head of the line, to
-- be a turn of its own, or as it was before the turn. Call it for the newest first. False: it
-- is not in the turn any more.
local function requeue_message(s, id, as_it_was)
  pcall('ZREM', s.lease, id)
  if call('LREM', s.active, 1, id) == 0 then return false end
  call('RPUSH', s.pending, id)
  call('HSET', s.task .. id, 'state', 'pending')
  if not as_it_was then call('HDEL', s.task .. id, 'quiet', 'first') end
  pcall('HDEL', s.followups, own_id(s, id)) -- of one that was steered in
  return true
end
