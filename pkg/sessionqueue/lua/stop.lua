-- stop: the turn that runs now is to end, and what waits behind it is archived,
-- a batch at a time. It names the turn that it found, so a later one is safe.
--
-- ARGV[2] prefix of task ids      ARGV[4] the last id to archive; '': all that wait now
-- ARGV[3] batch                   ARGV[5] cap of the event stream
--                                 ARGV[6] a name for this call, so that a
--                                         repetition is known
--
-- Answers {'idle', 'starting' or 'running', fence, archived now, the last id to
-- archive, or '' when done}.

local WHY = 'stopped by user'
local prefix, cap = ARGV[2], ARGV[5]
local now = now_ms()

local name, was, of, before, rest = string.match(call('HGET', record, 'stopped') or '', '^(%S+) (%S+) (%d+) (%d+) (.*)$')
if name == ARGV[6] then return {was, tonumber(of), tonumber(before), rest} end
local r = call('HMGET', run, 'token', 'worker', 'fence', 'phase', 'stop')
local owner = call('GET', sentinel)
local state = r[4] or 'idle' -- also of a dead owner: the next claim reads what was asked

local last = ARGV[4]
if last == '' then last = call('LINDEX', pending, 0) or '' end
local ids, more = {}, ''
if last ~= '' and call('LPOS', pending, last) then
  more = last
  for _, id in ipairs(call('LRANGE', pending, -tonumber(ARGV[3]), -1)) do
    local msg, unique = load(id)
    table.insert(ids, 1, {id, msg, unique})
  end
end
call('ZCARD', archived)
call('HLEN', followups)

-- A full Redis refuses a script until its first write, so that one frees.
call('HDEL', followups, '')
local n = 0
for _, t in ipairs(ids) do
  local id = own_id(prefix, t[1])
  call('RPOP', pending)
  call('HDEL', followups, id)
  if t[2] then
    n = n + 1
    local outcome = '{"type":"turn_ended","status":"stopped","messages":[' .. quote(id) .. '],"error":"' .. WHY .. '"}'
    archive(t[1], t[2], t[3], WHY, outcome, now)
    pcall('XADD', events, 'MAXLEN', '~', cap, '*', 'e', outcome)
  end
  if t[1] == last then
    more = ''
    break
  end
end
if state ~= 'idle' and r[5] ~= r[3] and ARGV[4] == '' then
  call('HSET', run, 'stop', r[3])
  if owner then call('PUBLISH', 'turnstile:signal:' .. r[2], '{"kind":"stop","token":"' .. owner .. '","fence":' .. r[3] .. '}') end
end
local at = tonumber(r[3]) or 0
if n > 0 or state ~= 'idle' then
  call('HSET', record, 'stopped', table.concat({ARGV[6], state, int(at), n, more}, ' '))
end
return {state, at, n, more}
