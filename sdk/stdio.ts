import { fstatSync, readSync, writeSync } from 'node:fs'
import type { Socket } from 'node:net'
import type { PeerInput, PeerOutput } from './rpc.js'

const FIRST_READ_BYTES = 64 * 1024
const NEWLINE = 10
const NOTHING = Buffer.alloc(0)

type Listener = (value: never) => void
type Done = (error?: Error | null) => void

interface Output extends PeerOutput {
  write(text: string | Uint8Array, done?: Done): boolean
}

/**
 * stdin and stdout, kept for the protocol. What the gateway says first is read and answered with two system calls:
 * setting up Node's streams takes a tenth of a plugin's start, and is done while the gateway has the answer already.
 */
export class Stdio {
  readonly input: PeerInput
  readonly output: PeerOutput
  readonly #heard: [event: string, listener: Listener][] = []
  readonly #watched: [event: 'close' | 'error', listener: (error: Error) => void][] = []
  #stdout: Output | undefined

  constructor() {
    const opened = (): Output | undefined => this.#stdout
    this.input = { on: (event: string, listener: Listener) => this.#heard.push([event, listener]) }
    this.output = {
      write: (text, done) => this.#write(text, done),
      get writableLength() {
        return opened()?.writableLength ?? 0
      },
      on: (event, listener) => {
        if (this.#stdout) this.#stdout.on(event, listener)
        else this.#watched.push([event, listener])
      },
    }
  }

  /** Waits for the gateway's first line, calls `heard`, passes the line on, calls `answer`, and reads on as it comes. */
  begin(heard: () => void, answer: () => void): void {
    const first = readFirst()
    heard()
    const end = first.indexOf(NEWLINE) + 1
    // Only the handshake is served by now: what follows may run the plugin's own code, which may write to stdout.
    this.#tell(first.subarray(0, end))
    if (end > 0) answer()
    this.#open()
    this.#tell(first.subarray(end))
    for (const [event, listener] of this.#heard) process.stdin.on(event, listener as () => void)
  }

  #tell(bytes: Buffer): void {
    if (bytes.length === 0) return
    for (const [event, listener] of this.#heard) if (event === 'data') (listener as (chunk: Buffer) => void)(bytes)
  }

  #write(text: string, done?: Done): boolean {
    if (this.#stdout) return this.#stdout.write(text, done)
    // A module may have written half a line before this: the first frame must not become part of it.
    const bytes = Buffer.from(`\n${text}`)
    let written = 0
    try {
      while (written < bytes.length) written += writeSync(1, bytes, written)
    } catch {
      // Full, or without a reader: the stream waits, or tells.
      return this.#open().write(bytes.subarray(written), done)
    }
    done?.()
    return true
  }

  #open(): Output {
    this.#stdout ??= claimStdout()
    for (const [event, listener] of this.#watched.splice(0)) this.#stdout.on(event, listener)
    return this.#stdout
  }
}

/** Waits for the first bytes. None where they come by the stream: from files, terminals, and in other runtimes. */
function readFirst(): Buffer {
  if (!isPipe(0) || !isPipe(1)) return NOTHING
  const first = Buffer.allocUnsafe(FIRST_READ_BYTES)
  try {
    return first.subarray(0, readSync(0, first))
  } catch {
    // Someone has opened it already, or it is gone: the stream tells.
    return NOTHING
  }
}

/** Whether a person sits at stdin. Files are asked first: Node's stream is no light thing to make. */
export function isTerminal(): boolean {
  return !isPipe(0) && process.stdin.isTTY
}

/** Where that can be told, and a pipe can be waited for: not on Windows, and not in Deno. */
function isPipe(file: number): boolean {
  if (process.platform === 'win32' || process.versions.deno !== undefined) return false
  const stats = fstatSync(file)
  return stats.isFIFO() || stats.isSocket()
}

/** Whatever else writes to stdout, `console` included, goes to stderr from now on. */
function claimStdout(): Output {
  const { stdout } = process
  const write = stdout.write.bind(stdout) as Output['write']
  stdout.write = process.stderr.write.bind(process.stderr)
  if ((stdout as Partial<Socket>).bytesWritten !== 0) write('\n')
  return {
    write,
    get writableLength() {
      return stdout.writableLength
    },
    on: (event, listener) => stdout.on(event, listener),
  }
}
