/**
 * What happens in Redis, each at once. `gateways` is a sorted set: gateways by the end of their leases in milliseconds,
 * by the clock of Redis. `owners` is a hash: things to `fence|gateway|info`. `owned` + gateway is the set of a gateway's.
 */
const NOW = `local t = redis.call('TIME') local now = t[1] * 1000 + math.floor(t[2] / 1000)`

/**
 * Renews a lease. KEYS: gateways. ARGV: gateway, lease in ms. Returns whether the lease had not run out, those alive, and
 * some of those dead.
 */
export const BEAT = `${NOW}
local before = redis.call('ZSCORE', KEYS[1], ARGV[1])
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[2]), ARGV[1])
return {before and tonumber(before) > now and 1 or 0, redis.call('ZRANGEBYSCORE', KEYS[1], now, '+inf'),
  redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', '(' .. now, 'LIMIT', 0, 10)}`

/**
 * Takes things. KEYS: owners, gateways. ARGV: gateway, prefix of owned, then id, fence, info, '1' to displace, for each.
 * Returns for each its fence ('' when another living gateway keeps it) and the living gateway that lost or keeps it. A
 * fence only grows: with it the later of two claims is known after Redis has forgotten both.
 */
export const CLAIM = `${NOW}
local out = {}
for i = 3, #ARGV, 4 do
  local id, fence, held = ARGV[i], tonumber(ARGV[i + 1]), redis.call('HGET', KEYS[1], ARGV[i])
  local theirs, holder, other, keeps = 0, nil, '', false
  if held then
    theirs, holder = string.match(held, '^(%d+)|([^|]+)|')
    theirs = tonumber(theirs)
  end
  if holder and holder ~= ARGV[1] then
    local ends = redis.call('ZSCORE', KEYS[2], holder)
    if ends and tonumber(ends) > now then other = holder end
    keeps = other ~= '' and ARGV[i + 3] ~= '1' and theirs >= fence
  end
  if keeps then
    out[#out + 1] = ''
  else
    if holder and holder ~= ARGV[1] then redis.call('SREM', ARGV[2] .. holder, id) end
    if fence <= theirs and holder ~= ARGV[1] then fence = theirs + 1 end
    if fence < theirs then fence = theirs end
    redis.call('HSET', KEYS[1], id, string.format('%.0f', fence) .. '|' .. ARGV[1] .. '|' .. ARGV[i + 2])
    redis.call('SADD', ARGV[2] .. ARGV[1], id)
    out[#out + 1] = string.format('%.0f', fence)
  end
  out[#out + 1] = other
end
return out`

/** New information. KEYS: owners. ARGV: gateway, then id and info. Returns those that are not the gateway's. */
export const TOUCH = `local lost = {}
for i = 2, #ARGV, 2 do
  local held = redis.call('HGET', KEYS[1], ARGV[i])
  local fence, holder = nil, nil
  if held then fence, holder = string.match(held, '^(%d+)|([^|]+)|') end
  if holder == ARGV[1] then redis.call('HSET', KEYS[1], ARGV[i], fence .. '|' .. holder .. '|' .. ARGV[i + 1])
  else lost[#lost + 1] = ARGV[i] end
end
return lost`

/** Gives things back. KEYS: owners. ARGV: gateway, prefix of owned, then ids. */
export const RELEASE = `for i = 3, #ARGV do
  local held = redis.call('HGET', KEYS[1], ARGV[i])
  if held and string.match(held, '^%d+|([^|]+)|') == ARGV[1] then redis.call('HDEL', KEYS[1], ARGV[i]) end
  redis.call('SREM', ARGV[2] .. ARGV[1], ARGV[i])
end
return 0`

/** Frees some things of a dead gateway. KEYS: owners, gateways. ARGV: gateway, prefix of owned. Returns whether more are left. */
export const FREE = `${NOW}
local ends = redis.call('ZSCORE', KEYS[2], ARGV[1])
if ends and tonumber(ends) > now then return 0 end
local ids = redis.call('SPOP', ARGV[2] .. ARGV[1], 500)
for _, id in ipairs(ids) do
  local held = redis.call('HGET', KEYS[1], id)
  if held and string.match(held, '^%d+|([^|]+)|') == ARGV[1] then redis.call('HDEL', KEYS[1], id) end
end
if #ids > 0 then return 1 end
return 0`

/** Forgets a dead gateway of which nothing is left. KEYS: gateways. ARGV: gateway. */
export const BURY = `${NOW}
local ends = redis.call('ZSCORE', KEYS[1], ARGV[1])
if ends and tonumber(ends) <= now then redis.call('ZREM', KEYS[1], ARGV[1]) end
return 0`
