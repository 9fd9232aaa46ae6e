import type { Log } from '../log.js'
import { watchDirectories } from './watch.js'

interface ScansOptions {
  log: Log
  /** Looks through the directories once. */
  look: () => Promise<void>
  directories: () => string[]
  /** A change of files is taken up once they have been left alone this long. */
  settleMs: number
  warnOnce: (key: string, message: string) => void
}

/** When the plugin directories are looked through: when asked to, and when files in them change. One look at a time. */
export class Scans {
  readonly #options: ScansOptions
  #scanning: Promise<void> | undefined
  #wanted = 0
  #unwatch: () => Promise<void> = () => Promise.resolve()
  /** One change of the directories after the other: each closes the watcher of the one before. */
  #applying: Promise<unknown> = Promise.resolve()
  #stopped = false

  constructor(options: ScansOptions) {
    this.#options = options
  }

  /** Looks through the directories again. Scans asked for meanwhile become one more. */
  scan(): Promise<void> {
    this.#wanted += 1
    this.#scanning ??= this.#scanAsWanted()
    return this.#scanning
  }

  /** The same where nobody waits for it: what goes wrong is logged. */
  scanSoon(): void {
    this.scan().catch((error: unknown) => {
      this.#options.log.error({ err: error }, 'the plugin directories could not be read')
    })
  }

  /** Begins to watch the directories. */
  async watch(): Promise<void> {
    if (this.#stopped) return
    this.#unwatch = await watchDirectories(this.#options.directories(), this.#options.settleMs, {
      onChange: () => {
        this.scanSoon()
      },
      onFailure: error => {
        const { code, message } = error as NodeJS.ErrnoException
        const said = `plugin directories are not watched for changes (${message}): use POST /plugins/scan`
        this.#options.warnOnce(`watch\0${code ?? message}`, said)
      },
    })
    // It may have been stopped meanwhile.
    if (this.#isStopped()) await this.#unwatch()
  }

  /** The directories are others now: looks through those, and watches them instead. */
  rewatch(): Promise<void> {
    const applied = this.#applying.then(async () => {
      await this.#unwatch()
      await this.scan()
      await this.watch()
    })
    this.#applying = applied.catch(() => undefined)
    return applied
  }

  /** No look begins from now on; resolves once the one under way is over. */
  async stop(): Promise<void> {
    this.#stopped = true
    await this.#unwatch()
    await this.#scanning?.catch(() => undefined)
  }

  #isStopped(): boolean {
    return this.#stopped
  }

  async #scanAsWanted(): Promise<void> {
    try {
      while (this.#wanted > 0 && !this.#stopped) {
        this.#wanted = 0
        await this.#options.look()
      }
    } finally {
      // At once: a scan that is asked for after the last look must not be taken for one under way.
      this.#scanning = undefined
    }
  }
}
