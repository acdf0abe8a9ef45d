-- The interruption of a turn: a claim finds its owner dead, or a drain leaves it. The rules for its resume mark
-- and the count of interruptions are here.

-- load_mark(s) returns the session's resume record.
local function load_mark(s)
  local m = fields(s.resume, 'pending', 'reason', 'marked_at', 'interruptions', 'fence', 'suspended', 'crashes', 'runs', 'drained_at')
  return {pending = m.pending == '1', reason = m.reason or '', marked_at = tonumber(m.marked_at), interruptions = tonumber(m.interruptions) or 0,
    fence = m.fence, suspended = m.suspended == '1', crashes = m.crashes,
    runs = tonumber(m.runs) or 0, drained_at = tonumber(m.drained_at)}
end

-- RUNS_MOST times stuck_limit interruptions suspend a session, whatever its runs have done. Of a deploy's drains only the
-- first is one of them.
local RUNS_MOST = 10

-- interrupt(mark, fence, reason, now, stuck_limit, progressed, started) marks the interruption of the turn
-- with this fence, and counts it: stuck_limit counted ones in a row suspend the session; false: the lease was lost,
-- which is never counted. Returns whether the mark has changed. A turn is counted once, and a suspended session keeps
-- its record. A run that has
-- progressed is not counted, nor is a drain by a worker that started, at this ms, before the last drain that was: a
-- deploy hands a turn on to such workers, a restart loop to newer ones. A death has no such time.
local function interrupt(mark, fence, reason, now, stuck_limit, progressed, started)
  if mark.suspended or mark.fence == fence then return false end
  mark.pending, mark.reason, mark.marked_at, mark.fence = true, reason, now, fence
  if not stuck_limit then return true end
  local drained_at = mark.drained_at
  if started and drained_at and started < drained_at and drained_at <= now then return true end
  mark.runs = mark.runs + 1
  local counts = not progressed
  if counts then mark.interruptions, mark.drained_at = mark.interruptions + 1, started and now or drained_at end
  mark.suspended = counts and mark.interruptions >= stuck_limit or mark.runs >= RUNS_MOST * stuck_limit
  return true
end

-- store_interruption(s, mark) writes interrupt's changes.
local function store_interruption(s, mark)
  call('HSET', s.resume, 'pending', '1', 'reason', mark.reason, 'marked_at', int(mark.marked_at),
    'fence', mark.fence, 'interruptions', mark.interruptions, 'runs', mark.runs)
  if mark.drained_at then call('HSET', s.resume, 'drained_at', int(mark.drained_at)) end
  if mark.suspended then call('HSET', s.resume, 'suspended', '1') end
  call('HSET', s.run, 'special', '1')
end

-- LEASE_LOST is the reason if the turn's owner lost its lease and lives.
local LEASE_LOST = 'lease_lost'

-- The fencing tokens of the newest deaths, nine or ten, are stored as "fence fence+ ", so that an owner that
-- lives can take its own back: see survive. A plus stands for a run with progress.

-- with_fence(list, fence) returns the list with one more.
local function with_fence(list, fence) return string.sub((list or '') .. fence .. ' ', -140) end

-- without_fence(list, fence) returns the list without this one, or false if it is not there.
local function without_fence(list, fence)
  local padded = ' ' .. (list or '')
  local at, last = string.find(padded, ' ' .. fence .. ' ', 1, true)
  return at and string.sub(padded, 2, at) .. string.sub(padded, last + 1)
end

-- IN_DOUBT is the sentinel's value while a dead owner has time to report that it lives.
local IN_DOUBT = 'in doubt'

-- requeue_message(s, id, ...) moves a message from active to the head of the queue, as a separate turn. Call it
-- for the newest message first. The last arguments are further fields of its task.
local function requeue_message(s, id, ...)
  pcall('ZREM', s.lease, id)
  call('LREM', s.active, 1, id)
  call('RPUSH', s.pending, id)
  call('HSET', s.task .. id, 'state', 'pending', ...)
  call('HDEL', s.task .. id, 'quiet', 'first')
  pcall('HDEL', s.followups, own_id(s, id)) -- that of a message that was steered in
end
