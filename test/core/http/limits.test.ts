import assert from 'node:assert/strict'
import { limitKeyOf } from '../../../core/http/limits.js'
import { anonymous } from '../../../core/http/caller.js'
import { startGateway, type TestGateway } from '../../support/gateway.js'
import { exampleRoutes, routesPlugin, testIdentity } from './support.js'

describe('rate limits', () => {
  let gateway: TestGateway
  before(async () => {
    gateway = await startGateway({
      plugins: [testIdentity, routesPlugin(...exampleRoutes())],
      settings: { 'Service:RateLimits:Read': '3', 'Service:RateLimits:Write': '1' },
    })
  })
  after(() => gateway.stop())

  const statuses = async (times: number, path: string, token?: string): Promise<number[]> => {
    const seen: number[] = []
    for (let i = 0; i < times; i++) seen.push((await gateway.call('GET', path, token === undefined ? {} : { token })).status)
    return seen
  }

  it('count each user and each category apart, and say when to come back', async () => {
    assert.deepEqual(await statuses(4, '/whoami', 'user'), [200, 200, 200, 429])
    assert.deepEqual(await statuses(1, '/whoami', 'other'), [200])
    assert.equal((await gateway.call('DELETE', '/things/t1', { token: 'user' })).status, 204)
    const refused = await gateway.call('GET', '/whoami', { token: 'user' })
    assert.equal(refused.body.error.code, 'rate_limited')
    const seconds = Number(refused.headers.get('retry-after'))
    assert.ok(seconds >= 1 && seconds <= 60, String(seconds))
  })

  it('count bad tokens by address, so that guessing ends', async () => {
    assert.deepEqual(await statuses(4, '/whoami', 'guess'), [401, 401, 401, 429])
    assert.deepEqual(await statuses(1, '/whoami', 'admin'), [200])
  })

  it('count anonymous callers by address, IPv6 by its /64', () => {
    assert.equal(limitKeyOf(anonymous, '10.0.0.7'), 'address:10.0.0.7')
    assert.equal(limitKeyOf(anonymous, '2001:db8:1:2:3:4:5:6'), 'address:2001:db8:1:2::/64')
  })
})
