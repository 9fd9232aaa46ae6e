import assert from 'node:assert/strict'
import { dependencyOrder } from '../../core/order.js'
import { definePlugin, service } from '../../core/plugin.js'
import { plugins } from '../../plugins/index.js'

const a = service<string>('a')
const b = service<string>('b')

const plugin = (id: string, provides?: typeof a, needs: Record<string, typeof a> = {}) =>
  definePlugin({ id, ...(provides ? { provides } : {}), needs, setup: () => 'x' })

describe('dependency order', () => {
  it('starts a plugin after everything that it needs, whatever the order given', () => {
    const order = dependencyOrder([plugin('last', undefined, { b }), plugin('middle', b, { a }), plugin('first', a)])
    assert.deepEqual(
      order.map(({ id }) => id),
      ['first', 'middle', 'last'],
    )
  })

  it('is by id where nothing depends on it, whatever the order given', () => {
    const order = dependencyOrder([plugin('y'), plugin('z'), plugin('x')])
    assert.deepEqual(
      order.map(({ id }) => id),
      ['x', 'y', 'z'],
    )
  })

  it('starts what extends a service before whoever needs that, so that it stops after', () => {
    const extension = definePlugin({ id: 'z-extension', needs: { a, b }, extends: ['a'], setup: () => 'x' })
    const order = dependencyOrder([plugin('user', undefined, { a }), extension, plugin('other', b), plugin('open-set', a)])
    assert.deepEqual(
      order.map(({ id }) => id),
      ['open-set', 'other', 'z-extension', 'user'],
    )
  })

  it('shows a circle over an extension', () => {
    const extension = definePlugin({ id: 'extension', needs: { a, b }, extends: ['a'], setup: () => 'x' })
    assert.throws(() => dependencyOrder([plugin('one', a), plugin('two', b, { a }), extension]), /extension -> two -> extension/)
  })

  it('of the gateway stops chat before whatever answers it', () => {
    const order = dependencyOrder(plugins).map(({ id }) => id)
    for (const answering of ['models', 'providers', 'offline', 'plugins', 'tools', 'memory', 'documents', 'agents'])
      assert.ok(order.indexOf('chat') > order.indexOf(answering), `${answering}: ${order.join(', ')}`)
    assert.deepEqual(dependencyOrder([...plugins].reverse()), dependencyOrder(plugins))
  })

  it('names the plugin and the service that is missing', () => {
    assert.throws(
      () => dependencyOrder([plugin('channels', undefined, { a })]),
      /"channels" needs the service "a", which no plugin provides/,
    )
  })

  it('shows a circle as a path', () => {
    assert.throws(() => dependencyOrder([plugin('one', a, { b }), plugin('two', b, { a })]), /one -> two -> one/)
  })

  it('refuses two plugins with one id, and two that provide one service', () => {
    assert.throws(() => dependencyOrder([plugin('same'), plugin('same')]), /Two internal plugins have the id "same"/)
    assert.throws(() => dependencyOrder([plugin('one', a), plugin('two', a)]), /"one" and "two" both provide the service "a"/)
  })
})
