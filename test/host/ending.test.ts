import assert from 'node:assert/strict'
import { spawn, type ChildProcess } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import { once } from 'node:events'
import { join } from 'node:path'
import { waitFor } from '../support/waitFor.js'
import { pidsWith, startHost, type TestHost } from './support.js'

/** The state of a process as the system sees it: `Z` is a zombie; `undefined`: there is none. */
const stateOf = async (pid: number): Promise<string | undefined> => {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '')
  return stat === '' ? undefined : stat.slice(stat.lastIndexOf(')') + 2)[0]
}

const onLinux = process.platform === 'linux'
/** Longer than a process takes from its readiness to its crash, also on a busy machine. */
const HEALTHY_MS = 1_500

describe('the end of a plugin process', () => {
  let host: TestHost
  afterEach(() => host.stop())

  const unconfined = (name: string): Promise<TestHost> => startHost({ tiers: ['none'], settings: { allowUnconfined: [name] } })

  it('is shown as soon as it is one, although a grandchild holds its pipes, and the grandchild goes too', async function () {
    if (!onLinux) this.skip()
    host = await unconfined('parent')
    const seconds = `601.${process.pid}`
    await host.add('parent', 'fork-grandchild', { metadata: { seconds } })
    const { current } = await host.until('parent', 'ready')
    const [grandchild] = await waitFor('the grandchild', async () => {
      const found = await pidsWith(seconds)
      return found.length > 0 ? found : undefined
    })
    process.kill(current!.process.pid, 'SIGKILL')
    await waitFor('the state', () => host.core.supervisor('parent')!.state !== 'ready')
    assert.equal(host.core.supervisor('parent')!.current, undefined)
    await waitFor('its end', async () => (await stateOf(grandchild!)) === undefined)
  })

  it('by an administrator ends its grandchildren as well', async function () {
    if (!onLinux) this.skip()
    host = await unconfined('parent')
    const seconds = `602.${process.pid}`
    await host.add('parent', 'fork-grandchild', { metadata: { seconds } })
    const supervisor = await host.until('parent', 'ready')
    await waitFor('the grandchild', async () => (await pidsWith(seconds)).length > 0)
    await host.core.stopPlugin(supervisor)
    await waitFor('its end', async () => (await pidsWith(seconds)).length === 0)
  })

  it('leaves no zombie, however it comes', async function () {
    if (!onLinux) this.skip()
    host = await startHost({ tiers: ['node-permission'], limits: { maxCrashes: 50 } })
    const pids: number[] = []
    for (const mode of ['behave', 'ignore-shutdown', 'ignore-eof', 'ignore-sigterm']) {
      await host.add(mode, mode)
      const supervisor = await host.until(mode, 'ready')
      pids.push(supervisor.current!.process.pid)
      await host.core.stopPlugin(supervisor)
    }
    await host.add('killed')
    const { pid } = (await host.until('killed', 'ready')).current!.process
    process.kill(pid, 'SIGKILL')
    await waitFor('another', () => host.core.supervisor('killed')!.restarts > 0)
    await host.add('early', 'exit-before-handshake')
    await waitFor('its failures', () => (host.core.supervisor('early')?.restarts ?? 0) > 1)
    for (const ended of [...pids, pid]) await waitFor(`no process ${ended}`, async () => (await stateOf(ended)) === undefined)
    // One that ends at this moment is one until it is asked for, too.
    await waitFor('no zombie', async () => (await childrenOf(process.pid)).every(({ state }) => state !== 'Z'))
  })

  it('takes the second step of the ladder when it ignores the request: the end of its input is enough', async () => {
    host = await startHost({ tiers: ['node-permission'], limits: { endOfInput: 25_000 } })
    await host.add('stubborn', 'ignore-shutdown')
    const supervisor = await host.until('stubborn', 'ready')
    const { process: running } = supervisor.current!
    await host.core.stopPlugin(supervisor)
    assert.deepEqual(await running.exited, { code: 0, signal: null })
  })

  it('is followed by no signal, whoever has its pid by then', async function () {
    if (!onLinux) this.skip()
    host = await startHost({ tiers: ['node-permission'] })
    await host.add('gone')
    const supervisor = await host.until('gone', 'ready')
    const { process: ended } = supervisor.current!
    await host.core.stopPlugin(supervisor)
    const stranger = await startAs(ended.pid)
    if (!stranger) this.skip()
    const end = once(stranger, 'exit') as Promise<[number | null, NodeJS.Signals | null]>
    ended.kill()
    await ended.stop('once more')
    await host.core.restart(supervisor)
    await host.core.stopPlugin(supervisor)
    await host.core.stop()
    assert.equal(stranger.exitCode ?? stranger.signalCode, null)
    stranger.kill('SIGUSR2')
    assert.deepEqual(await end, [null, 'SIGUSR2'])
  })

  it('comes with the gateway, and nothing is started again by that: not what runs, nor what waits for its next start', async () => {
    host = await startHost({ tiers: ['node-permission'], limits: { maxCrashes: 50, backoffBase: 300, backoffMax: 300 } })
    for (const mode of ['behave', 'ignore-shutdown', 'crash-loop']) await host.add(mode, mode)
    await host.until('behave', 'ready')
    await host.until('ignore-shutdown', 'ready')
    const looping = await host.until('crash-loop', 'backing-off')
    const restarts = host.core.supervisors.map(supervisor => supervisor.restarts)
    await host.core.stop()
    assert.equal(looping.state, 'stopped')
    // Past the time at which it would have been started.
    await new Promise(resolve => setTimeout(resolve, 600))
    assert.deepEqual(await pidsWith(join(host.dataDir, 'plugin-versions')), [])
    assert.deepEqual(
      host.core.supervisors.map(supervisor => supervisor.restarts),
      restarts,
    )
    for (const supervisor of host.core.supervisors) assert.equal(supervisor.current, undefined)
  })
})

describe('the restarts of a plugin', () => {
  let host: TestHost
  afterEach(() => host.stop())

  it('wait twice as long each time, and start over after a time of health', async () => {
    const limits = { backoffBase: 400, backoffMax: 60_000, backoffReset: HEALTHY_MS, maxCrashes: 50 }
    host = await startHost({ tiers: ['node-permission'], limits })
    await host.add('fragile')
    const crash = async (): Promise<number> => {
      const supervisor = await host.until('fragile', 'ready')
      process.kill(supervisor.current!.process.pid, 'SIGKILL')
      await host.until('fragile', 'backing-off')
      const [, seconds] = /^it is started again in ([\d.]+) s/.exec(supervisor.reason ?? '') ?? []
      return Number(seconds) * 1000
    }
    // Up to a quarter less, so that restarts do not fall together; shown to a tenth of a second.
    const around = (delay: number, full: number): void =>
      assert.ok(delay >= full * 0.75 - 50 && delay <= full + 50, `${delay}, not ${full}`)
    around(await crash(), 400)
    around(await crash(), 800)
    const { current } = await host.until('fragile', 'ready')
    await waitFor('its health', () => Date.now() - current!.process.startedAt > HEALTHY_MS + 300)
    around(await crash(), 400)
  })
})

const childrenOf = async (parent: number): Promise<{ pid: number; state: string }[]> => {
  const pids = (await readFile(`/proc/${parent}/task/${parent}/children`, 'utf8').catch(() => '')).split(' ').filter(Boolean).map(Number)
  const states = await Promise.all(pids.map(async pid => ({ pid, state: (await stateOf(pid)) ?? '' })))
  return states.filter(({ state }) => state !== '')
}

/** Starts a process with exactly this pid, leader of its own group, where the system lets us choose; `undefined` where not. */
const startAs = async (pid: number): Promise<ChildProcess | undefined> => {
  for (let tries = 200; tries > 0; tries--) {
    const chosen = await writeFile('/proc/sys/kernel/ns_last_pid', String(pid - 1)).then(
      () => true,
      () => false,
    )
    if (!chosen) return undefined
    const child = spawn('sleep', ['60'], { detached: true, stdio: 'ignore' })
    if (child.pid === pid) return child
    child.kill('SIGKILL')
    await once(child, 'exit')
  }
  return undefined
}
