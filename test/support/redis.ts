import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { steadyPort } from './steadyPort.js'
import { waitFor } from './waitFor.js'

/** Whether there is a Redis to test with. */
export const hasRedis = spawnSync('redis-server', ['--version']).status === 0

/** A Redis server of its own, on a free port of this machine, that keeps nothing on disk. */
export interface TestRedis {
  uri: string
  port: number
  /** Starts it again, empty, at the same port. */
  start(): Promise<void>
  /** Ends it at once. */
  kill(): Promise<void>
  signal(signal: NodeJS.Signals): void
  close(): Promise<void>
}

export const startRedis = async ({ password }: { password?: string } = {}): Promise<TestRedis> => {
  const directory = await mkdtemp(join(tmpdir(), 'redis-test-'))
  const port = await steadyPort()
  let server: ChildProcess | undefined
  const start = async (): Promise<void> => {
    const secret = password === undefined ? [] : ['--requirepass', password]
    const options = ['--bind', '127.0.0.1', '--port', String(port), '--dir', directory, '--save', '', '--appendonly', 'no', ...secret]
    server = spawn('redis-server', options, { stdio: 'ignore' })
    await waitFor('Redis to listen', () => listens(port))
  }
  const kill = async (): Promise<void> => {
    if (server?.exitCode !== null || server.signalCode !== null) return
    const exited = once(server, 'exit')
    server.kill('SIGKILL')
    await exited
  }
  await start()
  return {
    uri: `redis://${password === undefined ? '' : `:${encodeURIComponent(password)}@`}127.0.0.1:${String(port)}`,
    port,
    start,
    kill,
    signal: signal => server?.kill(signal),
    close: async () => {
      await kill()
      await rm(directory, { recursive: true, force: true, maxRetries: 5 })
    },
  }
}

const listens = (port: number): Promise<boolean> =>
  new Promise(resolve => {
    const socket = connect(port, '127.0.0.1', () => {
      socket.destroy()
      resolve(true)
    })
    socket.once('error', () => {
      resolve(false)
    })
  })
