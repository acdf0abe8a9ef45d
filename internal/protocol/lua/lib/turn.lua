-- The turn: who owns it, how it begins, and what is requested of it. run is the run record,
-- with the fields that a function names.

-- begin_turn(s, fence, ids, at, ...): the run record of a turn that begins. Its last arguments are
-- further fields. What names a fence or an id (stop, interrupt, seq, hold) needs no clearing. A small
-- hash is searched from its beginning: what the next end reads comes first.
local function begin_turn(s, fence, ids, at, ...)
  return call('HSET', s.run, 'fence', fence, 'ids', ids, 'started_at', at, ...)
end

-- owned(s, run): whether the turn is still that of this token and fence: else nothing may
-- be written.
local function owned(s, run)
  return run.token == s.token and run.fence == s.fence and owns(s.sentinel, s.token)
end

-- earlier_result(s, run): what an earlier sending of the same request has returned, if its reply
-- got lost on the way; else false.
local function earlier_result(s, run)
  local mine = s.token .. ' ' .. s.fence .. ' '
  if run.last and string.sub(run.last, 1, #mine) == mine then return string.sub(run.last, #mine + 1) end
  return false
end

-- confirm_claim(s, run): notes that the owner knows of this turn. Until then its death does not
-- count: the reply to its claim may have been lost. A batch of events notes it, too.
local function confirm_claim(s, run)
  if string.match(run.seq or '', '^(%d+) ') ~= s.fence then call('HSET', s.run, 'seq', s.fence .. ' 0') end
end

-- requested(run, fence): 'stop', 'rollback' or 'interrupt' where that end of the turn was
-- requested, else ''.
local function requested(run, fence)
  if run.stop == fence then return 'stop' end
  if run.rollback == fence then return 'rollback' end
  if run.interrupt == fence then return 'interrupt' end
  return ''
end
