// The other side of the hub's bench, in a process of its own: nodes, and callers of the REST API.
import { HttpLane, type Answered } from './httpLane.js'
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

/** Every connection ends at once, without a word. */
const drop = async (): Promise<void> => {
  for (const { socket } of nodes.values()) socket.terminate()
  while (nodes.size > 0) await new Promise(resolve => setTimeout(resolve, 20))
}

/** Heartbeats of one node after the other, so many a second. */
const beat = async ({ perSecond, milliseconds }: { perSecond: number; milliseconds: number }): Promise<void> => {
  const beating = [...nodes.values()]
  const started = performance.now()
  let sent = 0
  for (let passed = 0; passed < milliseconds; passed = performance.now() - started) {
    for (; sent < (passed * perSecond) / 1000; sent++) beating[sent % beating.length]?.beat()
    await new Promise(resolve => setTimeout(resolve, 5))
  }
}

/** So many heartbeats, as fast as they are taken in. */
const burst = async ({ count }: { count: number }): Promise<void> => {
  const beating = [...nodes.values()]
  for (let sent = 0; sent < count; sent++) {
    beating[sent % beating.length]?.beat()
    if (sent % 100 === 0) await new Promise(resolve => setImmediate(resolve))
  }
  await new Promise(resolve => setTimeout(resolve, 500))
}

interface Rest {
  url: string
  token: string
  nodes: number
  inFlight: number
  milliseconds: number
  /** One request that waits for the result, one to send and one to wait, or one that does nothing but write. */
  how: 'waits' | 'polls' | 'writes'
}

const NEW_COMMAND = JSON.stringify({ command: COMMAND, params: PARAMS })

const requests: Record<Rest['how'], (lane: HttpLane, token: string, nodeId: string) => Promise<unknown>> = {
  writes: async (lane, token) => expect(await lane.ask('POST', '/api/bench/rows', token, NEW_COMMAND), 201),
  waits: async (lane, token, nodeId) => {
    ended(await lane.ask('POST', `/api/nodes/${nodeId}/commands`, token, NEW_COMMAND, 'Prefer: wait=30\r\n'))
  },
  polls: async (lane, token, nodeId) => {
    const sent = await lane.ask('POST', `/api/nodes/${nodeId}/commands`, token, NEW_COMMAND)
    const { commandId } = expect(sent, 202).body as { commandId: string }
    ended(await lane.ask('GET', `/api/nodes/commands/${commandId}/wait?timeoutMs=30000`, token))
  },
}

const expect = (answer: Answered, status: number): Answered => {
  if (answer.status !== status) throw new Error(`An unexpected answer: ${JSON.stringify(answer)}`)
  return answer
}

const ended = (answer: Answered): void => {
  if ((expect(answer, 200).body as { status?: string }).status !== 'succeeded')
    throw new Error(`A command did not succeed: ${JSON.stringify(answer)}`)
}

const callRest = async ({ url, token, nodes: count, inFlight, milliseconds, how }: Rest): Promise<Rate> => {
  const free = Array.from({ length: inFlight }, () => new HttpLane(url))
  let next = 0
  const once = async (): Promise<void> => {
    const lane = free.pop()
    if (!lane) throw new Error('There are more callers than connections')
    await requests[how](lane, token, nodeIdOf(next++ % count))
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
  callRest,
  drop,
  beat,
  burst,
}

export type ClientTasks = typeof tasks
answerTasks(tasks)
