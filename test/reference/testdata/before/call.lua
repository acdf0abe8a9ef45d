-- What a call was answered is kept for its repetition, in a key of its own: no other
-- call overwrites it.
--
-- KEYS[22] that key

local answer_key = KEYS[22]

-- keep_answer(...): words that the repetition finds there for five minutes. go-redis
-- gives up far sooner.
local function keep_answer(...)
  call('SET', answer_key, table.concat({...}, ' '), 'PX', '300000')
end
