import { execFileSync } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { addPlugin } from '../host/support.js'
import { median, row, startServer } from './measured.js'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const ROUNDS = 7
const MANY = 50

const bareNode = (): number => {
  const started = performance.now()
  execFileSync(process.execPath, ['-e', '0'])
  return performance.now() - started
}

interface Started {
  ms: number
  megabytes: number
}

/** Milliseconds from the start of the process until it says that it listens, and its resident memory a second later. */
const startGateway = async (dataDir: string): Promise<Started> => {
  const env = {
    ...process.env,
    Service__DataDir: dataDir,
    Service__Port: '0',
    Service__Plugins__Enabled: 'true',
    Service__Admin__Password: 'bench password',
    Service__Log__Level: 'error',
  }
  const started = performance.now()
  const { process: child } = await startServer([process.execPath, join(ROOT, 'dist/main.js')], env)
  const ms = performance.now() - started
  await new Promise(resolve => setTimeout(resolve, 1000))
  const status = await readFile(`/proc/${String(child.pid)}/status`, 'utf8').catch(() => '')
  const ended = new Promise(resolve => child.once('exit', resolve))
  child.kill('SIGTERM')
  await ended
  return { ms, megabytes: Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024 }
}

const installed = async (plugins: number): Promise<string> => {
  const dataDir = await mkdtemp(join(tmpdir(), 'gateway-bench-'))
  for (let n = 0; n < plugins; n++) {
    const name = `bench-${String(n)}`
    await addPlugin(join(dataDir, 'plugins', name), name, 'behave', { supportedExtensions: [`.b${String(n)}`] })
  }
  return dataDir
}

/** From the start of the process until it listens, with nothing and with many plugins installed. */
export const benchStart = async (): Promise<void> => {
  const [empty, full] = [await installed(0), await installed(MANY)]
  try {
    const rounds: { bare: number; none: Started; many: Started }[] = []
    // The first round makes keys and databases.
    for (let round = 0; round <= ROUNDS; round++)
      rounds.push({ bare: bareNode(), none: await startGateway(empty), many: await startGateway(full) })
    const bare = median(rounds.slice(1).map(each => each.bare))
    const [none, many] = (['none', 'many'] as const).map(which => ({
      ms: median(rounds.slice(1).map(each => each[which].ms)),
      megabytes: median(rounds.slice(1).map(each => each[which].megabytes)),
    })) as [Started, Started]
    for (const [plugins, { ms, megabytes }] of [
      [0, none],
      [MANY, many],
    ] as const) {
      const what = `Start: listening with ${String(plugins)} plugins / node -e 0`
      row(what, `${ms.toFixed(0)} ms`, `${bare.toFixed(0)} ms`, ms / bare, `at most 4 (${megabytes.toFixed(0)} MB resident)`)
    }
    const what = `Start: listening with ${String(MANY)} plugins / with none`
    row(what, `${many.ms.toFixed(0)} ms`, `${none.ms.toFixed(0)} ms`, many.ms / none.ms, 'at most 1.1')
  } finally {
    for (const dataDir of [empty, full]) await rm(dataDir, { recursive: true, force: true })
  }
}
