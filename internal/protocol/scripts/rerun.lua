-- Code generated from ../lua/rerun.lua by go generate; DO NOT EDIT.
--
-- rerun: puts the given dead letters back at the end of the queue, in the given order, if they have
-- not changed since the caller read them.
--
-- KEYS pending archived owed outbox deliveries audit call
-- ARGS
--   s.task              prefix of the session's task hashes
--   s.prefix            of task ids
--   s.by                who does it, '' if unknown: see audit
--   statuses            the outcomes that are meant, separated by blanks
--   line_cap number     how many messages may wait: those without room stay dead letters
--   ids list            of the tasks
--   arrived list        of each, '' if it has none. Another one shows that the message has been run
--     and has failed since
-- RETURNS
--   result: moved:int now:int

local call, pcall, try = redis.call, redis.pcall, pcall
local KEYS, ARGV = KEYS, ARGV
local s_pending, s_archived, s_owed, s_outbox, s_deliveries, s_audit, s_call, s_task, s_prefix, s_by = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], ARGV[1], ARGV[2], ARGV[3]
local function fields_1(key)
  local v = call('HMGET', key, 'msg', 'result', 'arrived')
  return {msg = v[1], result = v[2], arrived = v[3]}
end
local AUDIT_LINES, AUDIT_TTL = '-1000', '2592000' -- the last thousand, for 30 days

-- A whole number as text. Lua would write large ones as 1.7e+12.
local function int(number)
  return string.format('%d', number)
end

-- quote(text) returns a JSON string.
local function quote(text)
  if string.find(text, '^[%w%-._:@+=~]*$') then return '"' .. text .. '"' end
  return cjson.encode(text)
end

-- audit(s, did, what, now) appends a line to the session's audit: s.by did something to what. It fails
-- no move: a key of a wrong type is skipped.
local function audit(s_audit, s_by, did, what, now)
  pcall('RPUSH', s_audit, '{"at":' .. string.format('%d', now) .. ',"by":' .. quote(s_by) .. ',"did":"' .. did .. '","what":' .. quote(what) .. '}')
  pcall('LTRIM', s_audit, AUDIT_LINES, '-1')
  pcall('EXPIRE', s_audit, AUDIT_TTL)
end

-- keep_result(s, ...) stores words under s.call for five minutes, for a repetition of the call.
-- Package script gives up much sooner.
local function keep_result(s_call, ...)
  call('SET', s_call, table.concat({...}, ' '), 'PX', '300000')
end

-- Redis' clock in milliseconds. No script reads another clock.
local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- own_id(s, id) returns the message id of a task.
local function own_id(s_prefix, id)
  if string.sub(id, 1, #s_prefix) == s_prefix then return string.sub(id, #s_prefix + 1) end
  return id
end

-- count_for(s, to, n) adds n to a destination's count of undelivered outcomes.
local function count_for(s_deliveries, to, n)
  if n ~= 0 and call('HINCRBY', s_deliveries, 'n ' .. to, n) <= 0 then call('HDEL', s_deliveries, 'n ' .. to) end
end

-- promise(s, id, route) records that the message's outcome must be delivered to its route. Returns
-- whether that is new.
local function promise(s_deliveries, s_owed, s_prefix, id, route)
  local new = call('HSET', s_owed, own_id(s_prefix, id), route)
  count_for(s_deliveries, string.match(route, '^%S+'), new)
  -- That of an earlier run is over.
  if new == 1 then call('HDEL', s_deliveries, 'deliver_by ' .. own_id(s_prefix, id)) end
  return new == 1
end

-- check_outbox(s) fails on a key of a wrong type, before a script's first write.
local function check_outbox(s_deliveries, s_outbox, s_owed)
  call('HLEN', s_owed)
  call('ZCARD', s_outbox)
  call('HLEN', s_deliveries)
end

-- route_of(s, id) returns a task's route, or false. Scripts call it before their first write.
local function route_of(s_deliveries, s_outbox, s_owed, s_task, id)
  local route = call('HGET', s_task .. id, 'route')
  if route then check_outbox(s_deliveries, s_outbox, s_owed) end
  return route
end

-- varint_at(msg, at) returns the number at that place, and where it ends; or false if there is
-- none.
local function varint_at(msg, at)
  local n, factor = 0, 1
  for i = at, at + 9 do
    local b = string.byte(msg, i)
    if not b then return false end
    n = n + b % 128 * factor
    if b < 128 then return n, i end
    factor = factor * 128
  end
  return false
end

-- without(msg, numbers) returns a TaskMessage without the fields of these numbers. It leaves
-- everything after the first thousand fields, or from an unreadable field on, as it is.
local function without(msg, numbers)
  local kept, from, at = {}, 1, 1
  for _ = 1, 1000 do
    local tag, last = varint_at(msg, at)
    local kind, n = tag and tag % 8, false
    if kind == 0 then
      n, last = varint_at(msg, last + 1)
    elseif kind == 1 then
      n, last = true, last + 8
    elseif kind == 2 then
      n, last = varint_at(msg, last + 1)
      if n then last = last + n end
    elseif kind == 5 then
      n, last = true, last + 4
    end
    if not n or last > #msg then break end
    if numbers[math.floor(tag / 8)] then
      kept[#kept + 1] = string.sub(msg, from, at - 1)
      from = last + 1
    end
    at = last + 1
  end
  return table.concat(kept) .. string.sub(msg, from)
end

local statuses, line_cap = ARGV[4], tonumber(ARGV[5])
local at = 6
local function list()
  local l, n = {}, tonumber(ARGV[at])
  for i = 1, n do l[i] = ARGV[at + i] end
  at = at + n + 1
  return l
end
local ids = list()
local arrived = list()

local now, wanted = now_ms(), {}
local before, at = string.match(call('GET', s_call) or '', '^(%d+) (%d+)$')
if before then return {tonumber(before), tonumber(at)} end
for status in string.gmatch(statuses, '%S+') do wanted[status] = true end

local found, room = {}, line_cap - call('LLEN', s_pending)
for i, id in ipairs(ids) do
  if #found < room and call('ZSCORE', s_archived, id) then
    local t = fields_1(s_task .. id)
    local ok, outcome = try(cjson.decode, t.result or '')
    if t.msg and (t.arrived or '') == arrived[i] and ok and type(outcome) == 'table' and wanted[outcome.status] then
      found[#found + 1] = {id = id, msg = t.msg, route = route_of(s_deliveries, s_outbox, s_owed, s_task, id)}
    end
  end
end

for _, f in ipairs(found) do
  local id, msg = f.id, f.msg
  call('ZREM', s_archived, id)
  call('HDEL', s_task .. id, 'result', 'arrived', 'steer')
  -- Without 6 retried, 7 error_msg, 11 last_failed_at: as if it had never been tried.
  call('HSET', s_task .. id, 'state', 'pending', 'pending_since', int(now) .. '000000', 'seen', int(now),
    'msg', without(msg, {[6] = true, [7] = true, [11] = true}))
  call('LPUSH', s_pending, id)
  if f.route then -- it repeats itself
    local route = string.gsub(f.route, '^(%S+) %S+', '%1 ' .. own_id(s_prefix, id), 1)
    call('HSET', s_task .. id, 'route', route)
    promise(s_deliveries, s_owed, s_prefix, id, route)
  end
end
if #found > 0 then
  keep_result(s_call, #found, int(now))
  audit(s_audit, s_by, 'rerun', int(#found), now)
end
return {#found, now}
