import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { call } from '../support/gateway.js'
import { median, pinned, row, startServer, type Server } from './measured.js'

const run = promisify(execFile)
const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const CONNECTIONS = 32
const SECONDS = 2
const ROUNDS = 5

/** Requests a second, from a client on the other processor. */
const load = async (url: string, headers: Record<string, string>): Promise<number> => {
  const autocannon = createRequire(import.meta.url).resolve('autocannon')
  const named = Object.entries(headers).flatMap(([name, value]) => ['-H', `${name}: ${value}`])
  const [program = '', ...args] = pinned(1, [
    process.execPath,
    autocannon,
    '-j',
    '-c',
    String(CONNECTIONS),
    '-d',
    String(SECONDS),
    ...named,
    url,
  ])
  const { stdout } = await run(program, args, { maxBuffer: 4 * 1024 * 1024 })
  const { requests, non2xx } = JSON.parse(stdout) as { requests: { average: number }; non2xx: number }
  if (non2xx > 0) throw new Error(`${String(non2xx)} answers of ${url} were no success`)
  return requests.average
}

const serverProgram = (...args: string[]): string[] =>
  pinned(0, [process.execPath, '--import', 'tsx', fileURLToPath(new URL('restServer.ts', import.meta.url)), ...args])

/** An authenticated read of a stored record through everything, against bare Koa with the same bytes. */
const benchRecord = async (): Promise<void> => {
  const dataDir = await mkdtemp(join(tmpdir(), 'gateway-bench-'))
  const limits = Object.fromEntries(['Read', 'Write'].map(name => [`Service__RateLimits__${name}`, '0']))
  const env = { ...process.env, ...limits, Service__DataDir: dataDir, Service__Port: '0', Service__Admin__Password: 'bench password' }
  const servers: Server[] = []
  try {
    const gateway = await startServer(pinned(0, [process.execPath, join(ROOT, 'dist/main.js')]), env)
    servers.push(gateway)
    const { token } = (await call(gateway.url, 'POST', '/auth/login', { body: { email: 'admin@localhost', password: 'bench password' } }))
      .body as { token: string }
    const agent = await call(gateway.url, 'POST', '/agents', { token, body: { name: 'Bench', description: 'A record to be read' } })
    const path = `/api/agents/${(agent.body as { id: string }).id}`
    const koa = await startServer(serverProgram('koa', agent.text))
    servers.push(koa)
    const same = { Authorization: `Bearer ${token}` }
    const rounds: { ours: number; bare: number }[] = []
    for (let round = 0; round < ROUNDS; round++)
      rounds.push({ bare: await load(koa.url + path, same), ours: await load(gateway.url + path, same) })
    const ours = median(rounds.map(each => each.ours))
    const bare = median(rounds.map(each => each.bare))
    row('REST: authenticated GET of a record / bare Koa', `${ours.toFixed(0)}/s`, `${bare.toFixed(0)}/s`, ours / bare, 'at least 0.50')
  } finally {
    for (const { process: child } of servers) child.kill('SIGKILL')
    await rm(dataDir, { recursive: true, force: true })
  }
}

/** The last of 300 routes against the first. */
const benchRoutes = async (): Promise<void> => {
  const count = 300
  const { url, process: child } = await startServer(serverProgram('routes', String(count)))
  try {
    const rounds: { first: number; last: number }[] = []
    for (let round = 0; round < ROUNDS; round++)
      rounds.push({
        first: await load(`${url}/api/area0/thing0/x`, {}),
        last: await load(`${url}/api/area${String((count - 1) % 30)}/thing${String(count - 1)}/x`, {}),
      })
    const first = median(rounds.map(each => each.first))
    const last = median(rounds.map(each => each.last))
    row('REST: the last of 300 routes / the first', `${last.toFixed(0)}/s`, `${first.toFixed(0)}/s`, last / first, 'at least 0.95')
  } finally {
    child.kill('SIGKILL')
  }
}

export const benchRest = async (): Promise<void> => {
  await benchRecord()
  await benchRoutes()
}
