import assert from 'node:assert/strict'
import { dependencyOrder } from '../../core/order.js'
import { definePlugin, service } from '../../core/plugin.js'

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

  it('keeps the given order where nothing depends on it', () => {
    const order = dependencyOrder([plugin('x'), plugin('y'), plugin('z')])
    assert.deepEqual(
      order.map(({ id }) => id),
      ['x', 'y', 'z'],
    )
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
