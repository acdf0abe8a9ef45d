-- The result of a call is stored for its repetition under a separate key, so that no other call
-- overwrites it.

-- keep_result(s, ...) stores words under s.call for five minutes, for a repetition of the call.
-- Package script gives up much sooner.
local function keep_result(s, ...)
  call('SET', s.call, table.concat({...}, ' '), 'PX', '300000')
end
