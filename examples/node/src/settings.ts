import { randomBytes } from 'node:crypto'
import { watch } from 'node:fs'
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { basename, dirname, join } from 'node:path'

/** What the user of this machine has decided. */
export interface Settings {
  /** What the node may be asked to do here: names, `family.*`, `input.control`, `app.manage`, or `*`. */
  scopes: string[]
  /** Folders that `file.*` reaches. */
  roots: string[]
}

/** What only looks, and a notification. */
export const DEFAULT_SCOPES = ['system.info', 'screen.capture', 'screen.list', 'window.list', 'notification.show']

/** Where a node keeps what it knows, unless `--dir` says otherwise. */
export const defaultDirectory = (): string => join(process.env.XDG_CONFIG_HOME ?? join(homedir(), '.config'), 'agent-gateway-node')

/** The settings in a file, written whole. */
export class SettingsFile {
  readonly path: string

  constructor(directory: string) {
    this.path = join(directory, 'settings.json')
  }

  /** The defaults where there is no file. Throws what is wrong with it. */
  async load(): Promise<Settings> {
    let text: string
    try {
      text = await readFile(this.path, 'utf8')
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return { scopes: [...DEFAULT_SCOPES], roots: [] }
      throw error
    }
    return parse(text, this.path)
  }

  async save(settings: Settings): Promise<void> {
    await mkdir(dirname(this.path), { recursive: true, mode: 0o700 })
    const unfinished = `${this.path}.${randomBytes(6).toString('hex')}.tmp`
    await writeFile(unfinished, `${JSON.stringify(settings, null, 2)}\n`, { mode: 0o600, flag: 'wx' })
    await rename(unfinished, this.path)
  }

  /** Calls `onChange` whenever the file may have changed. Returns what ends that. */
  watch(onChange: () => void): () => void {
    const watcher = watch(dirname(this.path), { persistent: false }, (_event, name) => {
      if (name === null || name === basename(this.path)) onChange()
    })
    return () => {
      watcher.close()
    }
  }
}

const parse = (text: string, path: string): Settings => {
  const isTexts = (value: unknown): value is string[] => Array.isArray(value) && value.every(one => typeof one === 'string')
  try {
    const { scopes, roots } = JSON.parse(text) as Partial<Settings>
    if (isTexts(scopes) && isTexts(roots)) return { scopes, roots }
  } catch (error) {
    throw new Error(`${path} is no JSON: correct or remove it`, { cause: error })
  }
  throw new Error(`${path} must hold {"scopes": [texts], "roots": [paths]}: correct or remove it`)
}
