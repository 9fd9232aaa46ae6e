import assert from 'node:assert/strict'
import { readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { RpcErrorCode } from '../../sdk/protocol.js'
import { RpcError } from '../../sdk/rpc.js'
import { waitFor } from '../support/waitFor.js'
import { sandboxes } from './sandboxes.js'
import { pidsWith, startHost, type TestHost } from './support.js'

const MIB = 1024 * 1024

/** Programs differ by tier, and by Deno inside bubblewrap; which hosts they may reach makes no difference here. */
const distinct = sandboxes.filter(({ tiers, net }) => net === undefined || tiers.length > 1)

for (const sandbox of distinct)
  describe(`a plugin that takes all it can get in the sandbox ${sandbox.name}${sandbox.note}`, () => {
    let host: TestHost

    before(async function () {
      if (sandbox.missing !== undefined) this.skip()
      const limits = { maxCrashes: 50, maxStoredBytes: 32 * MIB }
      host = await startHost({ tiers: sandbox.tiers, limits })
      await host.add('glutton', 'behave', sandbox.net ? { permissions: { net: sandbox.net } } : {})
      await host.add('bystander')
      await host.until('bystander', 'ready')
      // Two together would take longer than one limit allows on a busy machine.
      await host.until('glutton', 'ready')
    })
    after(async () => {
      if (sandbox.missing === undefined) await host.stop()
    })
    /** Whatever happened, nobody else noticed. */
    afterEach(async () => {
      if (sandbox.missing !== undefined) return
      assert.equal(await host.extract('bystander', { name: 'a' }), 'v1 read a')
      assert.equal(host.core.supervisor('bystander')!.restarts, 0)
    })

    const says = (list: 'enforced' | 'open', what: RegExp): void => {
      const published = host.core.supervisor('glutton')!.current!.launch[list]
      assert.ok(
        published.some(line => what.test(line)),
        `nothing ${list} says ${String(what)}: ${published.join('; ')}`,
      )
    }
    const go = async (mode: string): Promise<string | RpcError> => {
      await host.until('glutton', 'ready')
      return host.extract('glutton', { name: JSON.stringify({ mode }), timeoutMs: 60_000 }).catch((error: unknown) => {
        assert.ok(error instanceof RpcError, String(error))
        return error
      })
    }
    const endsWith = async (mode: string, reason: RegExp): Promise<void> => {
      const { restarts } = await host.until('glutton', 'ready')
      const answer = await go(mode)
      if (answer instanceof RpcError) assert.equal(answer.code, RpcErrorCode.connectionClosed)
      await waitFor(`its end by ${mode}`, () => host.core.supervisor('glutton')!.restarts > restarts, 30_000)
      await waitFor(String(reason), () => reason.test(host.core.supervisor('glutton')!.lastError ?? ''))
      await host.until('glutton', 'ready')
    }

    it('ends at the limit of its heap', async () => {
      says('enforced', /^heap size$/)
      await endsWith('heap-oom', /it ended by itself|MiB of memory/)
    })

    it('is ended when its buffers take more than its memory', async () => {
      says('open', /^memory .*\(watched/)
      await endsWith('buffer-oom', /MiB of memory, more than 256 MiB, and was ended/)
    })

    it('is ended when it fills more than its share of the disk', async () => {
      says('open', /^disk space \(watched/)
      await host.until('glutton', 'ready')
      await go('disk-fill')
      await waitFor('its end', () => /it stored more than 32 MiB and was ended/.test(host.core.supervisor('glutton')!.lastError ?? ''))
      // It is ended again and again until someone clears its directory.
      await rm(join(host.dataDir, 'plugin-data', 'glutton'), { recursive: true })
      await host.core.restart(host.core.supervisor('glutton')!)
    })

    it('opens as many files as the system lets it, and the gateway still opens its own', async () => {
      says('open', /^processor time, and open files/)
      const answer = await go('fd-leak')
      assert.ok(answer instanceof RpcError || /^(EMFILE|no end|.*[Tt]oo many open files.*)$/s.test(answer), String(answer))
      assert.match(await readFile('/proc/self/status', 'utf8').catch(() => 'Name:'), /^Name:/)
      await host.core.restart(host.core.supervisor('glutton')!)
    })

    it('writes to its log what is cut, and is served on', async () => {
      for (const mode of ['stderr-flood', 'stderr-line']) assert.match(String(await go(mode)), new RegExp(`v1 read .*${mode}`))
      assert.ok(host.logged().length < 2 * MIB, `${host.logged().length} characters reached the log`)
      assert.ok(host.core.supervisor('glutton')!.outputTail.length <= 200)
    })

    it('is ended when it sends a frame that is too large, and one half', async () => {
      await endsWith('huge-frame', /the connection ended: frame too large/)
      await endsWith('partial-frame', /ended/)
    })

    it('forks exactly as published, and its children end with it', async function () {
      if (process.platform !== 'linux') this.skip()
      const seconds = `603.${process.pid}${distinct.indexOf(sandbox)}`
      const supervisor = await host.until('glutton', 'ready')
      const isOpen = supervisor.current!.launch.open.some(line => line.startsWith('child processes'))
      const { allowed, value } = await host.attempt('glutton', 'fork-many', { count: 24, seconds })
      if (isOpen) await waitFor('its children', async () => (await pidsWith(seconds)).length >= 24)
      else assert.deepEqual(await pidsWith(seconds), [])
      assert.equal(allowed === true && value === true, isOpen)
      // Half of them left its group.
      await host.core.stopPlugin(supervisor)
      await waitFor('the end of its children', async () => (await pidsWith(seconds)).length === 0)
    })
  })
