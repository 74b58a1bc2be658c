#!lua flags=allow-oom
-- lease_release: give up the lease of a partition, if the caller still holds it.
--
-- KEYS[1]   lease          string, the token of the instance that works on the partition
-- ARGV[1]   token
-- RETURNS   RELEASED | NOT_HELD
-- BOUND     one lease
-- EMITS     nothing
local lease = KEYS[1]
local token = ARGV[1]

if redis.call('GET', lease) ~= token then
  return { 'NOT_HELD' }
end
redis.call('DEL', lease)
return { 'RELEASED' }
