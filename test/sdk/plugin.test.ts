import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { createRequire } from 'node:module'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { RpcErrorCode } from '../../sdk/protocol.js'
import { startPlugin, type RunningPlugin, type StartOptions } from '../../sdk/testing.js'
import { plugin as channelDefinition } from './fixtures/channelPlugin.js'
import { plugin as extractorDefinition } from './fixtures/extractorPlugin.js'

const tsx = pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href
const file = (name: string): string => fileURLToPath(new URL(`./fixtures/${name}.ts`, import.meta.url))
const asProcess = (name: string, options: StartOptions = {}): Promise<RunningPlugin> =>
  startPlugin(file(name), { nodeArgs: ['--import', tsx], env: { STRAY: '1' }, ...options })
const until = async (condition: () => boolean): Promise<void> => {
  while (!condition()) await sleep(1)
}

describe('a plugin written with the SDK', () => {
  let plugin: RunningPlugin | undefined
  const started = async (starting: Promise<RunningPlugin>): Promise<RunningPlugin> => (plugin = await starting)

  afterEach(async () => {
    const ending = plugin
    plugin = undefined
    await ending?.stop()
  })

  for (const [how, start] of [
    ['in a process of its own', () => asProcess('channelPlugin')],
    ['in the process of its test', () => startPlugin(channelDefinition)],
  ] as const) {
    describe(`as a channel adapter ${how}`, () => {
      it('connects with typed settings and defaults, tells its status, and takes its cursor up again', async () => {
        const running = await started(start())
        const first = await running.connect({ channelId: 'c1', settings: { token: 'right' } })
        assert.equal(first.info, 'hello c1 nothing')
        await first.send({ recipient: 'r', text: 'poll' })
        assert.deepEqual(await first.disconnect(), { cursor: 'after 1' })
        const again = await running.connect({
          channelId: 'c1',
          settings: { token: 'right', greeting: 'hi', extra: 'x' },
          cursor: 'after 1',
        })
        assert.equal(again.info, 'hi c1 x')
        assert.deepEqual(
          running.statuses.map(({ status, message }) => `${status} ${message ?? ''}`),
          ['connected with cursor none', 'connected with cursor after 1'],
        )
        assert.ok(running.logs.some(({ message }) => message === 'c1 is over'))
      })

      it('answers webhooks, and its stray output stays out of the protocol', async () => {
        const running = await started(start())
        const channel = await running.connect({ settings: { token: 'right' } })
        const result = await channel.webhook({ body: 'hey ünïcode', query: { challenge: '42' }, deliveryId: 'd1' })
        assert.deepEqual(result.response, { status: 201, body: '42' })
        assert.deepEqual(channel.messages, [{ id: 'd1', text: 'hey ünïcode', sender: { id: 'u1' }, metadata: { room: 'r1' } }])
        if (running.pid === undefined) return
        assert.deepEqual(running.noise, ['a stray line', 'and a half one before the handshake'])
        await until(() => running.stderr.includes('webhook hey ünïcode') && running.stderr.includes('a stray write'))
      })

      it('sends, with an external id, without one, and with errors the gateway can tell apart', async () => {
        const running = await started(start())
        const channel = await running.connect({ settings: { token: 'right' } })
        assert.deepEqual(await channel.send({ recipient: 'r7', text: 'yes', deliveryId: 's1' }), { externalId: 'sent-s1' })
        assert.equal(await readFile(join(running.dataDir, 'sent'), 'utf8'), 'r7: yes')
        assert.deepEqual(await channel.send({ recipient: 'r7', text: 'nothing' }), {})
        await assert.rejects(channel.send({ recipient: 'r7', text: 'busy' }), { code: RpcErrorCode.temporary, retryAfterMs: 2500 })
      })

      it('hands over polled messages with their cursor', async () => {
        const running = await started(start())
        const channel = await running.connect({ settings: { token: 'right' } })
        await channel.send({ recipient: 'r7', text: 'poll' })
        assert.deepEqual([channel.messages.map(({ id }) => id), channel.cursor], [['p1'], 'c1'])
      })

      it('refuses settings at connect and tries them without connecting', async () => {
        const running = await started(start())
        await assert.rejects(running.connect({ settings: { token: 'wrong' } }), {
          code: RpcErrorCode.rejected,
          message: 'The token is refused',
        })
        assert.deepEqual(await running.testSettings({ token: 'right' }), { ok: true, message: 'hello' })
        assert.deepEqual(await running.testSettings({ token: 'odd' }), { ok: false, message: 'hello' })
      })

      it('says which message would have no reply address', async () => {
        const running = await started(start())
        const channel = await running.connect({ settings: { token: 'right' } })
        await assert.rejects(channel.webhook({ body: 'no address' }), /Message 0: metadata\.room is absent/)
      })

      it('passes cancellation on', async () => {
        const running = await started(start())
        const channel = await running.connect({ settings: { token: 'right' } })
        const params = { channelId: channel.channelId, deliveryId: 'x', recipient: 'r', text: 'hang', metadata: {} }
        await assert.rejects(running.peer.request('channel.send', params, { timeoutMs: 50 }), { code: RpcErrorCode.timeout })
        assert.deepEqual(await channel.send({ recipient: 'r', text: 'nothing' }), {})
      })

      it('refuses what is for a channel it does not have, as temporary, and what is for an extractor', async () => {
        const running = await started(start())
        const channel = await running.connect({ settings: { token: 'right' } })
        await channel.disconnect()
        await assert.rejects(channel.webhook({ body: 'x' }), { code: RpcErrorCode.temporary })
        await assert.rejects(running.extract({ name: 'a.txt', content: '' }), { code: RpcErrorCode.methodNotFound })
      })

      it('keeps channels apart', async () => {
        const running = await started(start())
        const [a, b] = await Promise.all(['a', 'b'].map(channelId => running.connect({ channelId, settings: { token: 'right' } })))
        await a!.disconnect()
        assert.deepEqual(await b!.send({ recipient: 'r', text: 'nothing' }), {})
      })
    })
  }

  describe('as an extractor', () => {
    it('gives short texts in the answer and long ones by file', async () => {
      const running = await started(asProcess('extractorPlugin'))
      assert.deepEqual(await running.extract({ name: 'a.txt', content: '2:äb' }), { text: 'äbäb', title: 'A.TXT', byFile: false })
      const long = await running.extract({ name: 'b.txt', content: '1000001:ä' })
      assert.deepEqual([long.text.length, long.byFile], [1_000_001, true])
      assert.deepEqual(running.logs[0], { level: 'info', message: 'read', fields: { name: 'a.txt' } })
    })

    it('keeps long work alive with progress', async () => {
      const running = await started(startPlugin(extractorDefinition))
      assert.equal((await running.extract({ name: 'a.txt', content: 'slow:x' }, { timeoutMs: 1_500 })).text, 'x')
    })

    it('refuses damaged documents for good, and reports a fault of its own as one', async () => {
      const running = await started(startPlugin(extractorDefinition))
      await assert.rejects(running.extract({ name: 'a.txt', content: 'bad:x' }), {
        code: RpcErrorCode.rejected,
        message: 'a.txt is damaged',
        retryable: false,
      })
      await assert.rejects(running.extract({ name: 'a.txt', content: 'none:x' }), {
        code: RpcErrorCode.internalError,
        message: /must return an object with a text/,
      })
    })
  })

  describe('lives and dies as the gateway expects', () => {
    it('takes the first protocol version it speaks, and names both sides when there is none', async () => {
      await started(startPlugin(extractorDefinition, { protocolVersions: ['2999-01-01', '2026-11-01'] }))
      await assert.rejects(
        asProcess('extractorPlugin', { protocolVersions: ['2999-01-01'] }),
        /No common protocol version: the gateway speaks 2999-01-01, this plugin 2026-11-01/,
      )
    })

    it('speaks the newest version that both sides have, whichever side is the older', async () => {
      const [older, newer, newest] = ['2026-11-01', '2027-03-01', '2027-09-01']
      for (const [hosts, plugins, chosen] of [
        [[newer, older], [newer, older], newer],
        [[newer, older], [older], older],
        [[older], [newer, older], older],
        [[newest, newer], [newer, older], newer],
        [[newer, older], [newest, newer], newer],
      ] as const) {
        const running = await startPlugin(extractorDefinition, { protocolVersions: hosts, pluginVersions: plugins })
        assert.equal(running.protocolVersion, chosen)
        await running.stop()
      }
      await assert.rejects(
        startPlugin(extractorDefinition, { protocolVersions: [newest], pluginVersions: [newer, older] }),
        /the gateway speaks 2027-09-01, this plugin 2027-03-01, 2026-11-01/,
      )
    })

    it('answers pings, and refuses a second handshake', async () => {
      const running = await started(startPlugin(extractorDefinition))
      assert.deepEqual(await running.peer.request('plugin.ping', {}), {})
      await assert.rejects(running.handshake(['2026-11-01']), /came twice/)
      plugin = undefined
    })

    it('answers a shutdown, lets its channels go and exits with 0', async () => {
      const running = await started(asProcess('channelPlugin'))
      await running.connect({ channelId: 'c9', settings: { token: 'right' } })
      assert.deepEqual(await running.peer.request('plugin.shutdown', { reason: 'test' }), {})
      assert.deepEqual(await running.exited, { code: 0, signal: null })
      assert.ok(running.logs.some(({ message }) => message === 'c9 is over'))
    })

    it('exits when its stdin ends, as it does when the gateway dies', async () => {
      const running = await started(asProcess('channelPlugin'))
      await running.connect({ settings: { token: 'right' } })
      running.endInput()
      assert.deepEqual(await running.exited, { code: 0, signal: null })
    })

    it('exits on SIGTERM and not on SIGINT', async () => {
      const running = await started(asProcess('channelPlugin'))
      running.kill('SIGINT')
      assert.deepEqual(await running.peer.request('plugin.ping', {}), {})
      running.kill('SIGTERM')
      assert.deepEqual(await running.exited, { code: 0, signal: null })
    })

    it('reports an uncaught error, exits with 1, and calls under way are rejected as retryable', async () => {
      const running = await started(asProcess('channelPlugin'))
      const channel = await running.connect({ settings: { token: 'right' } })
      await assert.rejects(channel.webhook({ body: 'crash' }), { code: RpcErrorCode.connectionClosed, retryable: true })
      assert.deepEqual(await running.exited, { code: 1, signal: null })
      assert.match(running.stderr, /thrown outside any call/)
      assert.ok(running.logs.some(({ level, message }) => level === 'error' && message.includes('thrown outside any call')))
    })
  })
})
