import { spawn, type ChildProcess } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { Peer } from '../../sdk/rpc.js'
import type { Method } from '../../sdk/protocol.js'

/** The bench's own method: answers what it is asked. */
export interface EchoRequests {
  echo: Method<{ text: string }, { text: string }>
}

export interface RpcRatio {
  payloadBytes: number
  inFlight: number
  /** Round trips a second. */
  bare: number
  peer: number
  /** `peer` / `bare`: medians of interleaved runs. */
  ratio: number
}

type Call = (text: string) => Promise<unknown>

const child = (name: string): ChildProcess =>
  spawn(process.execPath, ['--import', 'tsx', fileURLToPath(new URL(`./${name}.ts`, import.meta.url))], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })

/** The bare caller: newline JSON by hand, ids and promises and nothing else. */
function bareCaller(process: ChildProcess): Call {
  const { stdin, stdout } = piped(process)
  const waiting = new Map<number, (value: unknown) => void>()
  let lastId = 0
  let kept = ''
  stdout.setEncoding('utf8')
  stdout.on('data', (chunk: string) => {
    const lines = (kept + chunk).split('\n')
    kept = lines.pop() ?? ''
    for (const line of lines) {
      const { id, result } = JSON.parse(line) as { id: number; result: unknown }
      waiting.get(id)?.(result)
      waiting.delete(id)
    }
  })
  return text =>
    new Promise(resolve => {
      waiting.set(++lastId, resolve)
      stdin.write(JSON.stringify({ jsonrpc: '2.0', id: lastId, method: 'echo', params: { text } }) + '\n')
    })
}

function peerCaller(process: ChildProcess): Call {
  const { stdin, stdout } = piped(process)
  const peer = new Peer<EchoRequests, object>({ input: stdout, output: stdin })
  return text => peer.request('echo', { text })
}

function piped(process: ChildProcess): { stdin: NonNullable<ChildProcess['stdin']>; stdout: NonNullable<ChildProcess['stdout']> } {
  if (!process.stdin || !process.stdout) throw new Error('The child has no pipes')
  return { stdin: process.stdin, stdout: process.stdout }
}

async function roundTripsPerSecond(call: Call, text: string, inFlight: number, milliseconds: number): Promise<number> {
  const start = performance.now()
  const end = start + milliseconds
  let done = 0
  const lane = async (): Promise<void> => {
    while (performance.now() < end) {
      await call(text)
      done++
    }
  }
  await Promise.all(Array.from({ length: inFlight }, lane))
  return (done * 1000) / (performance.now() - start)
}

const median = (values: number[]): number => values.toSorted((a, b) => a - b)[values.length >> 1] ?? NaN

/** Round trips of the SDK's Peer against newline JSON written by hand, both over a child's stdin and stdout. */
export async function benchRpc({ runs = 7, millisecondsPerRun = 400 } = {}): Promise<RpcRatio[]> {
  const bareChild = child('echoBare')
  const peerChild = child('echoPeer')
  try {
    const bare = bareCaller(bareChild)
    const peer = peerCaller(peerChild)
    const ratios: RpcRatio[] = []
    for (const payloadBytes of [200, 65_536]) {
      for (const inFlight of [1, 64]) ratios.push(await compare(bare, peer, payloadBytes, inFlight, runs, millisecondsPerRun))
    }
    return ratios
  } finally {
    bareChild.kill()
    peerChild.kill()
  }
}

async function compare(bare: Call, peer: Call, payloadBytes: number, inFlight: number, runs: number, ms: number): Promise<RpcRatio> {
  const text = 'x'.repeat(payloadBytes)
  const rates = { bare: [] as number[], peer: [] as number[] }
  await roundTripsPerSecond(bare, text, inFlight, ms)
  await roundTripsPerSecond(peer, text, inFlight, ms)
  for (let run = 0; run < runs; run++) {
    rates.bare.push(await roundTripsPerSecond(bare, text, inFlight, ms))
    rates.peer.push(await roundTripsPerSecond(peer, text, inFlight, ms))
  }
  const [bareRate, peerRate] = [median(rates.bare), median(rates.peer)]
  return { payloadBytes, inFlight, bare: bareRate, peer: peerRate, ratio: peerRate / bareRate }
}
