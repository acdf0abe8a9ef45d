-- What somebody else asks of an owner's turn, after owner.lua.

-- asked(): 'stop', 'rollback' or 'interrupt' where somebody has asked for this
-- turn's end, else ''; and whether a message waits that is to be steered into it.
local function asked()
  local kinds = {'stop', 'rollback', 'interrupt'}
  local a = call('HMGET', run, 'stop', 'rollback', 'interrupt', 'steer')
  for i, kind in ipairs(kinds) do
    if a[i] == fence then return kind, a[4] == fence end
  end
  return '', a[4] == fence
end
