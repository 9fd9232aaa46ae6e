import { PassThrough } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Method } from '../../sdk/protocol.js'
import { Peer, RpcError, type Handlers, type PeerOptions } from '../../sdk/rpc.js'

export interface Methods {
  echo: Method<{ value: unknown }, { value: unknown }>
  wait: Method<Record<string, never>, { done: boolean }>
  fail: Method<{ how: string }, Record<string, never>>
}
interface Notes {
  note: { text: string }
}
export type TestPeer = Peer<Methods, Methods, Notes, Notes>
export type Options = Partial<PeerOptions<Methods, Notes>>

export const handlers: Handlers<Methods> = {
  echo: ({ value }) => ({ value }),
  wait: (_params, { signal }) =>
    new Promise((_resolve, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason as Error))
    }),
}

/** Two peers that talk to each other; what they say can be listened to on the streams. */
export function pair(
  left: Options = {},
  right: Options = {},
): { left: TestPeer; right: TestPeer; toLeft: PassThrough; toRight: PassThrough } {
  const toLeft = new PassThrough()
  const toRight = new PassThrough()
  return {
    left: new Peer({ input: toLeft, output: toRight, handlers, ...left }),
    right: new Peer({ input: toRight, output: toLeft, handlers, ...right }),
    toLeft,
    toRight,
  }
}

/** A peer whose other side is the test: `send` writes raw bytes to it, `lines` is what it has said. */
export function alone(options: Options = {}): {
  peer: TestPeer
  input: PassThrough
  send: (text: string | Buffer) => void
  lines: Record<string, unknown>[]
} {
  const input = new PassThrough()
  const output = new PassThrough()
  const lines: Record<string, unknown>[] = []
  output.on('data', (chunk: Buffer) => {
    for (const line of chunk.toString().trim().split('\n')) lines.push(JSON.parse(line) as Record<string, unknown>)
  })
  const peer: TestPeer = new Peer({ input, output, handlers, ...options })
  return { peer, input, send: text => input.write(text), lines }
}

export const until = async (condition: () => boolean): Promise<void> => {
  while (!condition()) await sleep(1)
}
export const request = (id: unknown, method: string, params?: unknown): string =>
  `${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`
export const code = (expected: number) => (error: unknown) => error instanceof RpcError && error.code === expected
