import assert from 'node:assert/strict'
import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { createLog } from '../../../../core/log.js'
import { hubEndpoint } from '../../../../plugins/nodes/hub/endpoint.js'
import type { Hub } from '../../../../plugins/nodes/hub/hub.js'
import { MAX_WAITING, Turnstile } from '../../../../plugins/nodes/hub/turnstile.js'
import { waitFor } from '../../../support/waitFor.js'

const nextTurn = () => new Promise(resolve => setImmediate(resolve))

describe('the turnstile of connections', () => {
  let turnstile: Turnstile
  let entered: string[]
  let refused: string[]

  beforeEach(() => {
    turnstile = new Turnstile()
    entered = []
    refused = []
  })

  const arrive = (network: string, name = network): void => {
    const [ins, outs] = [entered, refused]
    turnstile.queue(network, { enter: () => ins.push(name), refuse: () => outs.push(name) })
  }
  /** All of them in one turn of the event loop: nobody is let in meanwhile. */
  const crowd = (network: string, count: number): void => {
    for (let i = 0; i < count; i++) arrive(network)
  }
  const countOf = (names: string[], name: string) => names.filter(one => one === name).length
  const allIn = async (): Promise<void> => {
    while (entered.length + refused.length < asked) await nextTurn()
  }
  let asked: number

  it('lets all in, in order, with turns for others between them', async () => {
    const names = Array.from({ length: 100 }, (_, n) => String(n))
    for (const name of names) arrive('nat', name)
    const between: number[] = []
    while (entered.length < 100) {
      await nextTurn()
      between.push(entered.length)
    }
    assert.ok(between.length >= 5, `others had ${between.length} turns`)
    assert.deepEqual(entered, names)
  })

  it('lets twenty thousand of one address wait when nobody else does, sends more of them away, and is open again after', async () => {
    crowd('nat', MAX_WAITING)
    assert.equal(refused.length, 0)
    crowd('nat', 10)
    assert.equal(refused.length, 10)
    asked = MAX_WAITING + 10
    await allIn()
    arrive('nat', 'later')
    while (entered.at(-1) !== 'later') await nextTurn()
    assert.equal(refused.length, 10)
  })

  it('gives others their places, however many came first', async () => {
    crowd('crowd', MAX_WAITING + 5_000)
    crowd('other', 3_000)
    assert.deepEqual([countOf(refused, 'crowd'), countOf(refused, 'other')], [8_000, 0])
    // Both want more than there is: as many for each.
    crowd('other', MAX_WAITING)
    crowd('crowd', MAX_WAITING)
    asked = 2 * MAX_WAITING + MAX_WAITING + 8_000
    await allIn()
    assert.ok(Math.abs(countOf(entered, 'crowd') - countOf(entered, 'other')) <= 1)
    assert.equal(entered.length, MAX_WAITING)
  })

  it('gives everyone a place beside hundreds who want all of them', async () => {
    for (let i = 0; i < 200; i++) crowd(`crowd ${String(i)}`, 500)
    for (let i = 0; i < 50; i++) arrive(`other ${String(i)}`)
    assert.equal(refused.filter(name => name.startsWith('other')).length, 0)
    asked = 200 * 500 + 50
    await allIn()
    assert.equal(entered.length, MAX_WAITING)
    assert.deepEqual(new Set(entered.slice(0, 250)).size, 250, 'each had its first turn before any had its second')
  })

  it('sends new ones away once every place is that of another network', () => {
    for (let i = 0; i < MAX_WAITING; i++) arrive(String(i))
    assert.equal(refused.length, 0)
    arrive('one more')
    arrive('0')
    assert.deepEqual(refused, ['one more', '0'])
  })

  it('takes turns by network, each in its own order', async () => {
    for (const name of ['a1', 'a2', 'a3', 'a4', 'b1', 'b2', 'c1']) arrive(name.charAt(0), name)
    await nextTurn()
    assert.deepEqual(entered, ['a1', 'b1', 'c1', 'a2', 'b2', 'a3', 'a4'])
    arrive('a', 'a5')
    while (entered.length < 8) await nextTurn()
  })

  it('sends one of the longest lines away for each who comes to a full house', () => {
    for (let i = 0; i < MAX_WAITING; i++) arrive(String(i % (MAX_WAITING / 2)))
    for (let i = 0; i < MAX_WAITING / 2; i++) arrive(`new ${String(i)}`)
    assert.equal(refused.length, MAX_WAITING / 2)
    assert.equal(new Set(refused).size, MAX_WAITING / 2)
  })

  it('counts by the network that a connection comes from, as the gateway knows it', async () => {
    const endpoint = hubEndpoint({ close: () => undefined } as unknown as Hub, {
      maxMessageBytes: 65_536,
      maxBytesPerMinute: () => 0,
      pingIntervalMs: 15_000,
      addressOf: request => String(request.headers['x-forwarded-for']),
      log: createLog({ level: 'silent' }),
    })
    // Gone before their turn comes: they only take their places.
    const upgrade = (address: string): void => {
      const request = { url: '/hubs/node', headers: { 'x-forwarded-for': address } } as unknown as IncomingMessage
      const socket = { destroyed: true, end: (answer: string) => refused.push(`${address} ${answer.split('\r\n')[0] ?? ''}`) }
      endpoint.upgrade(request, socket as unknown as Duplex, Buffer.alloc(0))
    }
    for (let i = 0; i < MAX_WAITING; i++) upgrade(`2001:db8::${i.toString(16)}`)
    upgrade('192.0.2.1')
    upgrade('2001:db8::ffff')
    await waitFor('two to be sent away', () => refused.length > 1)
    assert.deepEqual(
      refused,
      ['2001:db8::4e1f', '2001:db8::ffff'].map(address => `${address} HTTP/1.1 503 Service Unavailable`),
    )
    await endpoint.close()
  })
})
