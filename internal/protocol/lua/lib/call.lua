-- What a call has returned is kept for its repetition, in a key of its own: no other call
-- overwrites it.

-- keep_result(s, ...): words that the repetition finds in s.call for five minutes. go-redis gives
-- up far sooner.
local function keep_result(s, ...)
  call('SET', s.call, table.concat({...}, ' '), 'PX', '300000')
end
