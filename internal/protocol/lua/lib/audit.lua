-- The audit: who has decided, stopped or changed something, without texts.

local AUDIT_LINES, AUDIT_TTL = '-1000', '2592000' -- the last thousand, for 30 days

-- audit(s, did, what, now) appends a line to the session's audit: s.by did something to what. It fails
-- no move: a key of a wrong type is skipped.
local function audit(s, did, what, now)
  pcall('RPUSH', s.audit, '{"at":' .. int(now) .. ',"by":' .. quote(s.by) .. ',"did":"' .. did .. '","what":' .. quote(what) .. '}')
  pcall('LTRIM', s.audit, AUDIT_LINES, '-1')
  pcall('EXPIRE', s.audit, AUDIT_TTL)
end
