import assert from 'node:assert/strict'
import { BlockList } from 'node:net'
import { deniedRanges } from '../../core/host/launch/deno.js'

describe('the addresses inside that are denied to a plugin with certain hosts', () => {
  const isDenied = (hosts: string[]) => {
    const list = new BlockList()
    for (const range of deniedRanges(hosts)) {
      const [network = '', bits = ''] = range.split('/')
      if (bits !== '') list.addSubnet(network, Number(bits))
    }
    return (address: string) => list.check(address)
  }

  it('are all of them but those that the manifest names', () => {
    const denied = isDenied(['10.1.2.3:443', 'api.example.com', 'localhost:8080', '192.0.2.1'])
    for (const address of [
      '10.1.2.2',
      '10.1.2.4',
      '10.0.0.0',
      '10.255.255.255',
      '127.0.0.0',
      '127.0.0.2',
      '127.255.255.255',
      '192.168.0.1',
    ])
      assert.equal(denied(address), true, address)
    for (const address of ['10.1.2.3', '127.0.0.1', '192.0.2.1', '11.0.0.0', '9.255.255.255']) assert.equal(denied(address), false, address)
  })

  it('are ranges as a whole where none is named, and IPv6 addresses one by one', () => {
    assert.ok(deniedRanges(['api.example.com']).includes('10.0.0.0/8'))
    assert.ok(deniedRanges(['api.example.com']).includes('[::1]'))
    assert.ok(!deniedRanges(['[::1]:80']).includes('[::1]'))
    assert.ok(deniedRanges(['[::1]:80']).includes('[::]') && deniedRanges(['[::1]:80']).includes('127.0.0.0/8'))
  })
})
