import { mkdir, open, readFile, rename, type FileHandle } from 'node:fs/promises'
import { dirname } from 'node:path'

/** A file of JSON lines that is only appended to, and now and then written anew. Lines given at the same time share a write. */
export class Journal {
  readonly #path: string
  #file: FileHandle
  #waiting: { line: string; done: () => void; failed: (error: unknown) => void }[] = []
  #writing: Promise<void> | undefined
  /** Bytes that the file has. */
  bytes: number

  private constructor(path: string, file: FileHandle, bytes: number) {
    this.#path = path
    this.#file = file
    this.bytes = bytes
  }

  /** Opens the journal with the lines that stand in it; half a line, which a crash can leave, is left out. */
  static async open(path: string): Promise<{ journal: Journal; lines: unknown[] }> {
    await mkdir(dirname(path), { recursive: true, mode: 0o700 })
    const text = await readFile(path, 'utf8').catch((error: unknown) => {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return ''
      throw error
    })
    const file = await open(path, 'a', 0o600)
    const journal = new Journal(path, file, Buffer.byteLength(text))
    // So that what is appended does not continue half a line.
    if (text !== '' && !text.endsWith('\n')) await file.write('\n')
    return { journal, lines: text.split('\n').flatMap(toValues) }
  }

  /** Resolves once the value is on disk. */
  append(value: unknown): Promise<void> {
    return new Promise((done, failed) => {
      this.#waiting.push({ line: `${JSON.stringify(value)}\n`, done, failed })
      this.#writing ??= this.#write()
    })
  }

  /** Replaces everything by what `values` then returns. A crash leaves the old or the new lines. */
  async rewrite(values: () => readonly unknown[]): Promise<void> {
    while (this.#writing) await this.#writing
    const replacing = this.#replace(values())
    const goOn = (): void => {
      this.#writing = this.#waiting.length > 0 ? this.#write() : undefined
    }
    this.#writing = replacing.then(goOn, goOn)
    await replacing
  }

  async close(): Promise<void> {
    while (this.#writing) await this.#writing
    await this.#file.close()
  }

  async #write(): Promise<void> {
    // What is given in the same turn is written with it.
    await Promise.resolve()
    while (this.#waiting.length > 0) {
      const batch = this.#waiting
      this.#waiting = []
      const text = batch.map(({ line }) => line).join('')
      try {
        await this.#file.appendFile(text)
        await this.#file.datasync()
        this.bytes += Buffer.byteLength(text)
        for (const { done } of batch) done()
      } catch (error) {
        for (const { failed } of batch) failed(error)
      }
    }
    this.#writing = undefined
  }

  async #replace(values: readonly unknown[]): Promise<void> {
    const unfinished = `${this.#path}.tmp`
    const text = values.map(value => `${JSON.stringify(value)}\n`).join('')
    const next = await open(unfinished, 'w', 0o600)
    try {
      await next.writeFile(text)
      await next.sync()
      await rename(unfinished, this.#path)
    } catch (error) {
      await next.close()
      throw error
    }
    const old = this.#file
    this.#file = next
    this.bytes = Buffer.byteLength(text)
    await old.close()
  }
}

const toValues = (line: string): unknown[] => {
  try {
    return line === '' ? [] : [JSON.parse(line)]
  } catch {
    return []
  }
}
