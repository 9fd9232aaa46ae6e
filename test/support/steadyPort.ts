import { once } from 'node:events'
import { createServer } from 'node:net'

/** Below the ports that systems give to whoever asks for any. */
const FIRST = 20_000
const PER_WORKER = 1_000
const WORKERS = 12

const first = FIRST + (Number(process.env.MOCHA_WORKER_ID ?? 0) % WORKERS) * PER_WORKER
let next = process.pid % PER_WORKER

/**
 * A free port of this machine that nobody else takes while it is not listened on: for a server of another process that
 * is told its port, or that is started again at the same one. The system gives it to nobody, nor do other workers of mocha
 * choose it.
 */
export const steadyPort = async (): Promise<number> => {
  for (let tries = 0; tries < PER_WORKER; tries++) {
    const port = first + next
    next = (next + 1) % PER_WORKER
    if (await isFree(port)) return port
  }
  throw new Error(`no port from ${String(first)} on is free`)
}

const isFree = async (port: number): Promise<boolean> => {
  const server = createServer().listen(port, '127.0.0.1')
  try {
    await once(server, 'listening')
  } catch {
    return false
  }
  server.close()
  await once(server, 'close')
  return true
}
