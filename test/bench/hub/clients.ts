// The other side of the hub's bench, in a process of its own: nodes, and callers of the REST API.
import { HttpLane } from './httpLane.js'
import { measureLanes, type Rate } from './lanes.js'
import { connectNode, type BenchNode, type Protocol } from './nodes.js'
import { COMMAND, nodeIdOf, PARAMS } from './names.js'
import { answerTasks } from './program.js'

const nodes = new Map<number, BenchNode>()

interface Connect {
  protocol: Protocol
  url: string
  from: number
  count: number
  /** How many connect at the same time. */
  atOnce: number
  negotiates?: boolean
  /** Keep trying: nodes that were refused come back. */
  retries?: boolean
}

const connectAll = async ({
  protocol,
  url,
  from,
  count,
  atOnce,
  negotiates = false,
  retries = false,
}: Connect): Promise<{ refused: number }> => {
  let next = from
  let refused = 0
  const lane = async (): Promise<void> => {
    while (next < from + count) {
      const index = next++
      for (;;) {
        try {
          nodes.set(index, await connectNode({ protocol, url, index, negotiates, onEnd: lost => nodes.delete(lost) }))
          break
        } catch (error) {
          if (!retries) throw error
          refused += 1
          await new Promise(resolve => setTimeout(resolve, 50 + Math.random() * 200))
        }
      }
    }
  }
  await Promise.all(Array.from({ length: Math.min(atOnce, count) }, lane))
  return { refused }
}

interface Durable {
  url: string
  token: string
  nodes: number
  inFlight: number
  milliseconds: number
  /** With one request for both, or one to send and one to wait. */
  waits: boolean
}

const NEW_COMMAND = JSON.stringify({ command: COMMAND, params: PARAMS })

const runCommands = async ({ url, token, nodes: count, inFlight, milliseconds, waits }: Durable): Promise<Rate> => {
  const free = Array.from({ length: inFlight }, () => new HttpLane(url))
  let next = 0
  const once = async (): Promise<void> => {
    const lane = free.pop()
    if (!lane) throw new Error('There are more callers than connections')
    const path = `/api/nodes/${nodeIdOf(next++ % count)}/commands`
    const sent = await lane.ask('POST', path, token, NEW_COMMAND, waits ? 'Prefer: wait=30\r\n' : '')
    const { commandId } = sent.body as { commandId?: string }
    const ended = waits ? sent : await lane.ask('GET', `/api/nodes/commands/${String(commandId)}/wait?timeoutMs=30000`, token)
    if ((ended.body as { status?: string }).status !== 'succeeded')
      throw new Error(`A command did not succeed: ${JSON.stringify(sent)} ${JSON.stringify(ended)}`)
    free.push(lane)
  }
  try {
    return await measureLanes(inFlight, milliseconds, once)
  } finally {
    for (const lane of free) lane.close()
  }
}

export const tasks = {
  connect: connectAll,
  count: () => nodes.size,
  runCommands,
}

export type ClientTasks = typeof tasks
answerTasks(tasks)
