import { join } from 'node:path'
import { Journal } from './journal.js'
import { MAX_FIELD_BYTES, type CommandResult } from './protocol.js'

/** Commands that are remembered; the oldest that are over are forgotten first. */
const MAX_REMEMBERED = 10_000
/** The journal is written anew beyond this, once most of it is about commands that are over. */
const COMPACT_BYTES = 8 * 1024 * 1024
/** Results that the gateway has not taken; beyond it the oldest are given up. */
const MAX_UNDELIVERED_BYTES = 64 * 1024 * 1024

/** What is known of a command that came before. */
export interface Remembered {
  /** `interrupted`: it was started by a process that died before it ended. */
  state: 'running' | 'interrupted' | 'finished' | 'delivered'
  /** While it is `finished`. */
  result?: CommandResult
  /** It stands in the journal. */
  isDurable: boolean
  bytes: number
}

/** A line of the journal: `s`tarted, `f`inished, `d`elivered, or forgotten (`x`). */
interface Line {
  s?: string
  f?: string
  d?: string
  x?: string
  r?: CommandResult
}

/**
 * Which commands ran, so that none runs twice, whatever way and how often it comes. Commands that must not be repeated
 * stand in a journal before they run, so that this holds over a crash too.
 */
export class CommandMemory {
  readonly #journal: Journal
  readonly #known = new Map<string, Remembered>()
  #undeliveredBytes = 0
  #compacting: Promise<void> | undefined

  private constructor(journal: Journal) {
    this.#journal = journal
  }

  static async open(directory: string): Promise<CommandMemory> {
    const { journal, lines } = await Journal.open(join(directory, 'commands.jsonl'))
    const memory = new CommandMemory(journal)
    for (const line of lines) memory.#replay(line as Line)
    for (const known of memory.#known.values()) if (known.state === 'running') known.state = 'interrupted'
    memory.#trim()
    await journal.rewrite(() => memory.#lines())
    return memory
  }

  get(commandId: string): Readonly<Remembered> | undefined {
    return this.#known.get(commandId)
  }

  /** Results that the gateway has not taken yet, oldest first. */
  undelivered(): CommandResult[] {
    return [...this.#known.values()].flatMap(({ state, result }) => (state === 'finished' && result ? [result] : []))
  }

  /** Resolves once that is on disk, where it has to be: only then the command may run. */
  async started(commandId: string, { isDurable }: { isDurable: boolean }): Promise<void> {
    this.#known.set(commandId, { state: 'running', isDurable, bytes: 0 })
    this.#trim()
    if (!isDurable) return
    try {
      await this.#journal.append({ s: commandId } satisfies Line)
    } catch (error) {
      this.#known.delete(commandId)
      throw error
    }
  }

  /** A result that travels in parts is kept over a crash too: parts of two runs must not mix. */
  async finished(result: CommandResult): Promise<void> {
    const { commandId } = result
    const known = this.#known.get(commandId)
    const bytes = Buffer.byteLength(JSON.stringify(result))
    const isDurable = known?.isDurable === true || bytes > MAX_FIELD_BYTES
    this.#known.set(commandId, { state: 'finished', result, isDurable, bytes })
    this.#undeliveredBytes += bytes
    this.#trim()
    if (isDurable) await this.#journal.append({ f: commandId, r: result } satisfies Line)
  }

  /** The gateway has it, or does not want it. */
  async delivered(commandId: string): Promise<void> {
    const known = this.#known.get(commandId)
    if (known?.state !== 'finished') return
    this.#undeliveredBytes -= known.bytes
    this.#known.set(commandId, { state: 'delivered', isDurable: known.isDurable, bytes: 0 })
    if (known.isDurable) await this.#journal.append({ d: commandId } satisfies Line)
    if (this.#journal.bytes > COMPACT_BYTES + 2 * this.#undeliveredBytes) await this.#compact()
  }

  /** It may come again and is then to run. */
  async forget(commandId: string): Promise<void> {
    const known = this.#known.get(commandId)
    if (!known) return
    if (known.state === 'finished') this.#undeliveredBytes -= known.bytes
    this.#known.delete(commandId)
    if (known.isDurable) await this.#journal.append({ x: commandId } satisfies Line)
  }

  async close(): Promise<void> {
    await this.#compacting
    await this.#journal.close()
  }

  #compact(): Promise<void> {
    this.#compacting ??= this.#journal.rewrite(() => this.#lines()).finally(() => (this.#compacting = undefined))
    return this.#compacting
  }

  #lines(): Line[] {
    return [...this.#known].filter(([, { isDurable }]) => isDurable).map(([id, known]) => toLine(id, known))
  }

  #replay({ s, f, d, x, r }: Line): void {
    const id = s ?? f ?? d ?? x
    if (id === undefined) return
    this.#undeliveredBytes -= this.#known.get(id)?.bytes ?? 0
    if (x !== undefined) this.#known.delete(id)
    else if (f !== undefined && r !== undefined) {
      const bytes = Buffer.byteLength(JSON.stringify(r))
      this.#undeliveredBytes += bytes
      this.#known.set(id, { state: 'finished', result: r, isDurable: true, bytes })
    } else this.#known.set(id, { state: s === undefined ? 'delivered' : 'running', isDurable: true, bytes: 0 })
  }

  #trim(): void {
    for (const [id, { state, bytes }] of this.#known) {
      const isTooMany = this.#known.size > MAX_REMEMBERED
      const isTooLarge = this.#undeliveredBytes > MAX_UNDELIVERED_BYTES
      if (!isTooMany && !isTooLarge) return
      if (state === 'running' || (!isTooMany && bytes === 0)) continue
      this.#undeliveredBytes -= bytes
      if (isTooMany) this.#known.delete(id)
      else this.#known.set(id, { state: 'delivered', isDurable: true, bytes: 0 })
    }
  }
}

const toLine = (id: string, { state, result }: Remembered): Line => {
  if (state === 'finished' && result) return { f: id, r: result }
  return state === 'delivered' ? { d: id } : { s: id }
}
