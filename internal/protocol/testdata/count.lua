-- Counts the work of a script: the commands that it calls, and the elements and bytes that these
-- touch. This text stands before the script, whose text follows as the body of a function. It
-- returns {calls, elements, bytes, by command, touched, reply}.
--
-- A command touches its arguments, its reply, and what it passes on its way: a list's elements from
-- the end at which the search begins, the elements of a deleted key, the nodes of a trimmed stream.
-- Commands that only find these out are not part of the script's work. They are counted apart, as
-- probes.

local server, lua_pcall = redis, pcall
local counts, by_command, touched, probes = {0, 0, 0}, {}, {}, {}

local function probe(...)
  local name = string.upper(...)
  probes[name] = (probes[name] or 0) + 1
  return server.pcall(...)
end

local function number(v) return type(v) == 'number' and v or 0 end

local function length(key)
  local counting = {list = 'LLEN', hash = 'HLEN', zset = 'ZCARD', set = 'SCARD'} -- of a string: 1
  local kind = probe('TYPE', key).ok
  if kind == 'stream' then return math.ceil(probe('XLEN', key) / 100) end -- nodes
  return counting[kind] and probe(counting[kind], key) or 1
end

-- from_end(key, index) returns how far an index is from the nearer end of a list, in nodes of about
-- 32 elements, which Redis skips.
local function from_end(key, index)
  local len = number(probe('LLEN', key))
  index = tonumber(index)
  if index < 0 then index = len + index end
  return math.max(math.ceil(math.min(index, len - 1 - index) / 32), 0)
end

-- walked(key, v, n) returns how many elements a search for n occurrences passes, from the tail if n
-- is negative.
local function walked(key, v, n)
  local len = number(probe('LLEN', key))
  if n == 0 then return len end
  local found = probe('LPOS', key, v, 'RANK', n < 0 and -1 or 1, 'COUNT', math.abs(n))
  if found.err or #found < math.abs(n) then return len end
  return n < 0 and len - found[#found] or found[#found] + 1
end

local function deleted(...)
  local n = 0
  for i = 1, select('#', ...) do n = n + length((select(i, ...))) end
  return n
end

-- Commands that pass elements which are neither arguments nor reply. What those of the second table
-- pass is known from the reply.
local before = {
  COPY = length,
  DEL = deleted,
  LINDEX = from_end,
  LRANGE = from_end,
  LSET = from_end,
  LREM = function(key, n, v) return walked(key, v, tonumber(n)) end,
  LPOS = function(key, v, ...)
    local len, options = number(probe('LLEN', key)), {RANK = 1, COUNT = 1, MAXLEN = 0}
    for i = 1, select('#', ...), 2 do options[string.upper((select(i, ...)))] = tonumber((select(i + 1, ...))) end
    local most = options.MAXLEN > 0 and math.min(options.MAXLEN, len) or len
    local found = probe('LPOS', key, v, 'RANK', options.RANK, 'COUNT', options.COUNT, 'MAXLEN', options.MAXLEN)
    if options.COUNT == 0 or found.err or #found < options.COUNT then return most end
    return options.RANK < 0 and len - found[#found] or found[#found] + 1
  end,
  LINSERT = function(key, _, pivot) return walked(key, pivot, 1) end,
  LTRIM = function(key, first, last)
    local len = number(probe('LLEN', key))
    first, last = tonumber(first), tonumber(last)
    if first < 0 then first = math.max(len + first, 0) end
    if last < 0 then last = len + last end
    -- In nodes, as in from_end: Redis frees them whole.
    return math.ceil(math.min(len, len - math.max(math.min(last, len - 1) - first + 1, 0)) / 32)
  end,
}
local after = {
  XADD = function(_, was, key, ...) return math.ceil(math.max(was + 1 - number(probe('XLEN', key)), 0) / 100) end,
  ZREMRANGEBYRANK = number, ZREMRANGEBYSCORE = number,
  XTRIM = function(trimmed) return math.ceil(number(trimmed) / 100) end,
}

-- The work of all others is their arguments and their reply.
local small = {}
for name in string.gmatch([[APPEND DECR EXISTS EXPIRE EXPIREAT GET GETDEL GETEX GETRANGE HDEL HEXISTS HGET HGETALL HINCRBY HKEYS HLEN HMGET
  HMSET HRANDFIELD HSCAN HSET HSETNX HSTRLEN HVALS INCR INCRBY LLEN LMOVE LPOP LPUSH LPUSHX PERSIST PEXPIRE PEXPIREAT PTTL
  PUBLISH RENAMENX RPOP RPOPLPUSH RPUSH RPUSHX SADD SCARD SET SETEX SETNX SISMEMBER SMEMBERS SPOP SREM SSCAN STRLEN TIME TTL TYPE UNLINK
  XLEN XRANGE XREVRANGE ZADD ZCARD ZCOUNT ZINCRBY ZMSCORE ZPOPMAX ZPOPMIN ZRANGE ZRANGEBYLEX ZRANGEBYSCORE ZRANK ZREM ZREVRANGE
  ZSCAN ZSCORE]], '%S+') do small[name] = true end
local writes = {HSET = true, HDEL = true, HINCRBY = true, HSETNX = true, DEL = true, UNLINK = true}

local function size(v)
  if type(v) ~= 'table' then return 1, type(v) == 'string' and #v or 8 end
  local elements, bytes = 0, #(v.err or v.ok or '')
  for _, part in ipairs(v) do
    local e, b = size(part)
    elements, bytes = elements + e, bytes + b
  end
  return elements, bytes
end

local function counting(call)
  return function(name, ...)
    name = string.upper(name)
    if not (before[name] or after[name] or small[name]) then error('count.lua does not know what ' .. name .. ' costs') end
    local args = {...}
    local elements, bytes = size(args)
    if before[name] then elements = elements + before[name](...) end
    local was = name == 'XADD' and number(probe('XLEN', args[1])) or 0
    local reply = call(name, ...)
    local e, b = size(reply)
    elements, bytes = elements + e, bytes + b
    if after[name] then elements = elements + after[name](reply, was, ...) end
    if writes[name] then
      for _, key in ipairs(args) do
        if type(key) == 'string' and string.find(key, '%-%a%d%d%d%d%d%d$') then touched[key] = true end
      end
    end
    local of = by_command[name] or {0, 0, 0}
    by_command[name] = of
    for i, n in ipairs({1, elements, bytes}) do
      counts[i], of[i] = counts[i] + n, of[i] + n
    end
    return reply
  end
end

local redis = setmetatable({call = counting(server.call), pcall = counting(server.pcall)}, {__index = server})

local function script()
-- the script
end

local ok, reply = lua_pcall(script)
if not ok then error(reply) end
local names = {}
for key in pairs(touched) do names[#names + 1] = key end
if reply == nil then reply = false end
return {counts[1], counts[2], counts[3], cjson.encode({calls = by_command, probes = probes}), names, reply}
