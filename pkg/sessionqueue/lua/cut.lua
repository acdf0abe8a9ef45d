-- A turn that is cut off, as its session's resume record knows it, after session.lua.
-- Whoever cuts it off counts it, and nobody counts it twice.

-- interrupted(n, last, fence): how many turns in a row are cut off with the one that
-- has the fence, by what the record has: n before it, the last of them with that
-- fence. False: it was counted already.
local function interrupted(n, last, fence)
  return last ~= fence and (tonumber(n) or 0) + 1
end

-- cut_off(fence, n, reason, now, limit): marks the session's last turn, as the nth in
-- a row. So many suspend the session.
local function cut_off(fence, n, reason, now, limit)
  call('HSET', resume, 'pending', '1', 'reason', reason, 'marked_at', int(now), 'fence', fence, 'interruptions', n)
  if n >= limit then call('HSET', resume, 'suspended', '1') end
end
