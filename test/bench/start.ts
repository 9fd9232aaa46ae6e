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

/** Milliseconds from the start of the process until it says that it listens, and its resident memory a second later. */
const startGateway = async (dataDir: string): Promise<{ ms: number; megabytes: number }> => {
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

/** From the start of the process until it listens, with nothing and with many plugins installed. */
export const benchStart = async (): Promise<void> => {
  let none = 0
  for (const plugins of [0, MANY]) {
    const dataDir = await mkdtemp(join(tmpdir(), 'gateway-bench-'))
    try {
      for (let n = 0; n < plugins; n++)
        await addPlugin(join(dataDir, 'plugins', `bench-${String(n)}`), `bench-${String(n)}`, 'behave', {
          supportedExtensions: [`.b${String(n)}`],
        })
      await startGateway(dataDir)
      const rounds: { ms: number; megabytes: number; bare: number }[] = []
      for (let round = 0; round < ROUNDS; round++) rounds.push({ bare: bareNode(), ...(await startGateway(dataDir)) })
      const ours = median(rounds.map(({ ms }) => ms))
      const bare = median(rounds.map(each => each.bare))
      const memory = median(rounds.map(({ megabytes }) => megabytes))
      row(
        `Start: listening with ${String(plugins)} plugins / node -e 0`,
        `${ours.toFixed(0)} ms`,
        `${bare.toFixed(0)} ms`,
        ours / bare,
        `at most 4 (${memory.toFixed(0)} MB resident)`,
      )
      if (plugins === 0) none = ours
      else
        row(
          `Start: listening with ${String(plugins)} plugins / with none`,
          `${ours.toFixed(0)} ms`,
          `${none.toFixed(0)} ms`,
          ours / none,
          'at most 1.1',
        )
    } finally {
      await rm(dataDir, { recursive: true, force: true })
    }
  }
}
