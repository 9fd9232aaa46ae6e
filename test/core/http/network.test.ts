import assert from 'node:assert/strict'
import { networkOf } from '../../../core/http/network.js'

describe('the network of an address', () => {
  it('is an IPv4 address itself', () => {
    assert.equal(networkOf('192.0.2.1'), '192.0.2.1')
    assert.equal(networkOf('::ffff:192.0.2.1'), '::ffff:192.0.2.1')
  })

  it('is the same for every address in one /64, however it is written', () => {
    const same = [
      '2001:db8::1',
      '2001:db8::abcd:0:0:1',
      '2001:db8::2:3:4:5',
      '2001:0db8:0000:0000:ffff:ffff:ffff:ffff',
      '2001:DB8:0:0:1::',
      '2001:db8::',
      '2001:db8::1%eth0',
    ]
    for (const address of same) assert.equal(networkOf(address), '2001:db8:0:0::/64', address)
    assert.equal(networkOf('::1'), '0:0:0:0::/64')
    assert.equal(networkOf('2001:db8:1:2:3:4:5:6'), '2001:db8:1:2::/64')
    assert.equal(networkOf('2001:db8:1:2::'), networkOf('2001:db8:1:2:9::9'))
  })

  it('is another for another /64', () => {
    const others = ['2001:db8:0:1::1', '2001:db8:1::1', '2001:db8:0:0:0:0:0:1', '2001:db9::1', 'fe80::1', '::1']
    assert.equal(new Set(others.map(networkOf)).size, others.length)
  })

  it('is the text itself when that is no address', () => {
    for (const text of ['', 'unknown', 'a:b', ':::']) assert.equal(networkOf(text), text)
  })
})
