import { spawn } from 'node:child_process'
import { cp, readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { defaultLimits } from '../../core/host/policy.js'
import { addPlugin, hasBubblewrap, startHost, type TestHost } from '../host/support.js'
import { waitFor } from '../support/waitFor.js'
import { median, row } from './measured.js'

const TIER = hasBubblewrap ? 'bubblewrap' : 'node-permission'
const EXAMPLES = fileURLToPath(new URL('../../examples/plugins', import.meta.url))
const ROUNDS = 15
const MANY = 50
const IDLE = 10
const RELOADS = 30
const CALLERS = 64

const start = (): Promise<TestHost> => startHost({ tiers: [TIER], limits: { ...defaultLimits, settle: 100, drain: 5_000 } })

/** The same sandbox, and in it nothing but Node. */
const bareIn = async (host: TestHost, id: string, program: string): Promise<{ ms: number; pid: number; end: () => void }> => {
  const { launch } = host.core.supervisor(id)!.current!
  const place = launch.args.findIndex(word => /\.[cm]js$/.test(word))
  const args = [...launch.args.slice(0, place), '-e', program]
  const started = performance.now()
  const child = spawn(launch.command, args, { env: launch.env, cwd: launch.cwd, stdio: ['pipe', 'pipe', 'ignore'], detached: true })
  await new Promise(resolve => (program === '0' ? child.once('exit', resolve) : child.stdout.once('data', resolve)))
  return { ms: performance.now() - started, pid: child.pid ?? 0, end: () => void child.kill('SIGKILL') }
}

/** Proportional set size of a process and its descendants, in MB. */
const pssOf = async (leader: number): Promise<number> => {
  const parents = new Map<number, number>()
  for (const name of (await readdir('/proc')).filter(entry => /^\d+$/.test(entry))) {
    const stat = await readFile(`/proc/${name}/stat`, 'utf8').catch(() => '')
    parents.set(Number(name), Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]))
  }
  const isBelow = (pid: number): boolean => pid === leader || (pid > 1 && isBelow(parents.get(pid) ?? 0))
  let kilobytes = 0
  for (const pid of [...parents.keys()].filter(isBelow)) {
    const text = await readFile(`/proc/${pid}/smaps_rollup`, 'utf8').catch(() => '')
    kilobytes += Number(/^Pss:\s+(\d+)/m.exec(text)?.[1] ?? 0)
  }
  return kilobytes / 1024
}

/** As a developer gets it: written with the SDK, built by `service dev build`. */
const addBuilt = (host: TestHost, name: string): Promise<void> =>
  cp(join(EXAMPLES, name), join(host.plugins, name), { recursive: true, filter: path => !/node_modules|test$/.test(path) })

/** From the request to start a plugin until it serves, against bare Node in the same sandbox. */
const benchColdStart = async (): Promise<void> => {
  const host = await start()
  try {
    await addBuilt(host, 'subtitles')
    await host.add('by-hand')
    for (const [id, what] of [
      ['subtitles', 'of the SDK'],
      ['by-hand', 'an ES module'],
    ] as const) {
      const supervisor = await host.until(id, 'ready')
      const rounds: { ours: number; bare: number }[] = []
      for (let round = 0; round < ROUNDS; round++) {
        const bare = (await bareIn(host, id, '0')).ms
        await supervisor.stop('stopped', 'to be started again')
        const started = performance.now()
        await supervisor.run(supervisor.candidate)
        rounds.push({ ours: performance.now() - started, bare })
      }
      const [ours, bare] = [median(rounds.map(each => each.ours)), median(rounds.map(each => each.bare))]
      row(
        `Plugin ${what}: cold start in ${TIER} / node -e 0`,
        `${ours.toFixed(0)} ms`,
        `${bare.toFixed(0)} ms`,
        ours / bare,
        'at most 1.15',
      )
    }
  } finally {
    await host.stop()
  }
}

/** From the notice that a process has ended until its spare serves: crashes, and a new spare each time. */
const benchTakeover = async (): Promise<void> => {
  const host = await startHost({
    tiers: [TIER],
    limits: { ...defaultLimits, maxCrashes: 1_000, backoffBase: 1 },
    settings: { warmSpares: ['warm'] },
  })
  try {
    await host.add('warm')
    const supervisor = await host.until('warm', 'ready')
    const rounds: number[] = []
    for (let round = 0; round < ROUNDS; round++) {
      const spare = await waitFor('a spare', () => supervisor.spare.process?.pid)
      const { process: serving } = supervisor.current!
      const ended = serving.exited.then(() => performance.now())
      process.kill(-serving.pid, 'SIGKILL')
      const began = await ended
      while (supervisor.state !== 'ready' || supervisor.current?.process.pid !== spare) await new Promise(resolve => setImmediate(resolve))
      rounds.push(performance.now() - began)
    }
    row('Plugin: a warm spare takes over', `${median(rounds).toFixed(1)} ms`, '', median(rounds) / 5, 'at most 5 ms')
  } finally {
    await host.stop()
  }
}

/** Fifty plugins, from the first scan until all serve, against as many bare processes, a few at a time. */
const benchMany = async (): Promise<void> => {
  const host = await startHost({ tiers: [TIER], limits: defaultLimits, begin: false })
  try {
    for (let n = 0; n < MANY; n++)
      await addPlugin(join(host.plugins, `many-${n}`), `many-${n}`, 'behave', { supportedExtensions: [`.m${n}`] })
    const started = performance.now()
    await host.core.start()
    await waitFor(
      'all of them',
      () => host.core.supervisors.length === MANY && host.core.supervisors.every(({ state }) => state === 'ready'),
      60_000,
    )
    const ours = performance.now() - started
    const bareStarted = performance.now()
    let next = 0
    const worker = async (): Promise<void> => {
      while (next++ < MANY) await bareIn(host, 'many-0', '0')
    }
    await Promise.all([worker(), worker(), worker()])
    const bare = performance.now() - bareStarted
    row(`Plugin: ${MANY} of them ready / as many node -e 0`, `${ours.toFixed(0)} ms`, `${bare.toFixed(0)} ms`, ours / bare, 'at most 1.5')
  } finally {
    await host.stop()
  }
}

/** What a plugin that does nothing costs, with ten running. */
const benchIdle = async (): Promise<void> => {
  const host = await start()
  const bare: { pid: number; end: () => void }[] = []
  try {
    for (let n = 0; n < IDLE; n++) await host.add(`idle-${n}`, 'behave', { supportedExtensions: [`.i${n}`] })
    for (let n = 0; n < IDLE; n++) await host.until(`idle-${n}`, 'ready')
    const program = 'process.stdin.resume(); process.stdout.write("up")'
    for (let n = 0; n < IDLE; n++) bare.push(await bareIn(host, 'idle-0', program))
    const ours = median(await Promise.all(host.core.supervisors.map(({ current }) => pssOf(current!.process.pid))))
    const peer = median(await Promise.all(bare.map(({ pid }) => pssOf(pid))))
    row(`Plugin: idle memory (PSS), ${IDLE} running / bare`, `${ours.toFixed(1)} MB`, `${peer.toFixed(1)} MB`, ours / peer, 'at most 12 MB')
  } finally {
    for (const { end } of bare) end()
    await host.stop()
  }
}

/** Calls that fail, and the longest time without a reply, while versions replace one another. */
const benchReload = async (): Promise<void> => {
  const host = await start()
  try {
    const directory = join(host.plugins, 'swift')
    const version = (number: string) => addPlugin(directory, 'swift', 'behave', { version: number, metadata: { version: number } })
    await version('1.0.0')
    await host.until('swift', 'ready')
    let [calls, failed, worst, last] = [0, 0, 0, performance.now()]
    const end = new AbortController()
    const callers = Array.from({ length: CALLERS }, async () => {
      while (!end.signal.aborted) {
        await host.extract('swift', { name: 'x' }).catch(() => (failed += 1))
        const now = performance.now()
        worst = Math.max(worst, now - last)
        last = now
        calls += 1
      }
    })
    for (let n = 1; n <= RELOADS; n++) {
      await version(`1.0.${n}`)
      await waitFor(`version ${n}`, () => host.core.supervisor('swift')!.current?.candidate.manifest.version === `1.0.${n}`)
    }
    end.abort()
    await Promise.all(callers)
    row(`Reload: ${RELOADS} under ${CALLERS} callers, calls / failed`, String(calls), String(failed), failed, '0 failed')
    row('Reload: longest time without a reply', `${worst.toFixed(0)} ms`, '', worst / 50, 'under 50 ms')
  } finally {
    await host.stop()
  }
}

export const benchHost = async (): Promise<void> => {
  await benchColdStart()
  await benchTakeover()
  await benchMany()
  await benchIdle()
  await benchReload()
}
