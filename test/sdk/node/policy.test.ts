import assert from 'node:assert/strict'
import { boolean, choice, integer, list, object, optional, string, withDefault } from '../../../sdk/node/index.js'
import { backOffMs } from '../../../sdk/node/backOff.js'
import { readParams } from '../../../sdk/node/fields.js'
import { normalizeGatewayUrl } from '../../../sdk/node/gatewayApi.js'
import { readCommand } from '../../../sdk/node/protocol.js'
import { effectiveScopes, isAllowedLocally, isGranted, scopesFor } from '../../../sdk/node/scopes.js'
import { isInScope, scopesFor as gatewayScopesFor } from '../../../plugins/nodes/scopes.js'

describe('what a node decides by itself', () => {
  it('scopes cover commands as they do in the gateway', () => {
    for (const command of ['screen.capture', 'input.type', 'input.control', 'app.launch', 'app.manage', 'input', 'shell.run']) {
      assert.deepEqual(scopesFor(command), gatewayScopesFor(command))
      for (const scope of ['screen.capture', 'input.control', 'input.type', 'app.manage'])
        assert.equal(isGranted(command, [scope]), isInScope(command, [scope]))
    }
  })

  it('patterns are for the machine only, and cover whole names', () => {
    assert.ok(isAllowedLocally('screen.capture', ['*']) && isAllowedLocally('screen.capture', ['screen.*']))
    assert.ok(isAllowedLocally('input.type', ['input.control']) && isAllowedLocally('input.type', ['input.*']))
    assert.ok(!isAllowedLocally('screens.capture', ['screen.*']) && !isAllowedLocally('screen.capture', ['screen.cap', 'scr*', '']))
    assert.ok(!isGranted('screen.capture', ['*', 'screen.*']))
    assert.deepEqual(effectiveScopes(['screen.capture', 'input.control', 'shell.run'], ['screen.*', 'input.type']), [
      'screen.capture',
      'input.control',
    ])
  })

  it('waits grow to a limit, and are spread over their whole length', () => {
    const policy = { baseMs: 1000, maxMs: 60_000 }
    const longest = (failures: number): number => backOffMs(failures, policy, () => 1)
    assert.deepEqual([0, 1, 2, 5, 6, 1000].map(longest), [1000, 2000, 4000, 32_000, 60_000, 60_000])
    assert.equal(
      backOffMs(5, policy, () => 0),
      0,
    )
  })

  it('parameters are read with their defaults, and what is wrong is named', () => {
    const fields = {
      text: string({ minLength: 2, maxLength: 4, pattern: /^[a-z]+$/ }),
      count: withDefault(integer({ min: 1, max: 3 }), 2),
      place: optional(object({ x: integer(), kind: choice('a', 'b') })),
      flags: withDefault(list(boolean(), { maxItems: 2 }), []),
    }
    assert.deepEqual(readParams(fields, { text: 'abc', other: 1, count: null }), { text: 'abc', count: 2, place: undefined, flags: [] })
    const wrong = (params: Record<string, unknown>, message: RegExp): void =>
      assert.throws(() => readParams(fields, { text: 'abc', ...params }), { code: 'invalid_params', message })
    wrong({ text: undefined }, /^text: a text is needed$/)
    wrong({ text: 'a' }, /^text: it is too short$/)
    wrong({ text: 'abcde' }, /^text: it is longer than 4/)
    wrong({ text: 'AB' }, /^text: it does not match/)
    wrong({ count: 1.5 }, /^count: a whole number/)
    wrong({ count: 4 }, /^count: it must be from 1 to 3$/)
    wrong({ place: { x: 1, kind: 'c' } }, /^place: kind: one of a, b is needed$/)
    wrong({ place: [] }, /^place: an object is needed$/)
    wrong({ flags: [true, 1] }, /^flags: true or false/)
    wrong({ flags: [true, true, true] }, /^flags: it has more than 2 items$/)
    assert.throws(() => readParams(fields, Object.create({ text: 'abc' })), { code: 'invalid_params' })
  })

  it('a command is read with whatever is missing or unknown in it', () => {
    const origin = { userId: '', agentId: '', sessionId: '' }
    const common = { params: {}, timeoutMs: 30_000, originatedBy: origin, protocolVersion: '2026-04-01' }
    assert.deepEqual(readCommand({ commandId: 'c', command: 'a.b', later: true, params: null, timeoutMs: 'x' }), {
      commandId: 'c',
      command: 'a.b',
      ...common,
    })
    assert.equal(readCommand({ commandId: 'c', command: 'a.b', timeoutMs: 1e12 })?.timeoutMs, 86_400_000)
    for (const value of [null, 'x', [], {}, { commandId: 7, command: 'a.b' }, { commandId: 'c', command: '' }])
      assert.equal(readCommand(value), undefined)
  })

  it('addresses of a gateway are brought into one form', () => {
    for (const address of ['https://host/gw/api/', 'https://host/gw', 'https://host/gw/?x=1#y'])
      assert.equal(normalizeGatewayUrl(address), 'https://host/gw')
    for (const wrong of ['ftp://host', 'host:8080', 'https://user:secret@host']) assert.throws(() => normalizeGatewayUrl(wrong))
  })
})
