-- What Turnstile's scripts share. It stands before each script's own text and
-- writes nothing. Callers use the names; they are locals, so a script that
-- does not use one pays only for its definition.

-- Redis' clock in milliseconds. No script reads another clock.
local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- A whole number as text. Lua would write large ones as 1.7e+12.
local function int(number)
  return string.format('%d', number)
end

-- The fence that follows the stored one (text, false or nil where none is).
-- The clock keeps it rising when the stored one was lost.
local function next_fence(stored, now)
  return math.max((tonumber(stored or 0) or 0) + 1, now)
end

-- Whether the sentinel is up and is this token's.
local function owns(sentinel_key, token)
  return redis.call('GET', sentinel_key) == token
end
