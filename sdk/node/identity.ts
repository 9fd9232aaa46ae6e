import { randomBytes } from 'node:crypto'
import { watch } from 'node:fs'
import { chmod, mkdir, open, readFile, rename, rm, stat } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'

/** What a node knows of itself and its gateway. Without a token it is not paired. */
export interface NodeIdentity {
  nodeId: string
  /** The gateway's address, without `/api`. */
  gatewayUrl: string
  /** `{nodeId}.{secret}`. */
  token?: string
  /** A pairing that is under way. */
  pairing?: { secret: string }
}

const OWNER_ONLY = 0o600
const isPosix = process.platform !== 'win32'

/** A node's identity in a file that its owner alone can read. It is replaced whole: a crash leaves the old or the new one. */
export class IdentityFile {
  readonly path: string

  constructor(path: string) {
    this.path = path
  }

  /** `undefined`: there is none. Throws when it cannot be read, is damaged, or is open to others on the machine. */
  async load(): Promise<NodeIdentity | undefined> {
    let text: string
    try {
      const { mode } = await stat(this.path)
      if (isPosix && (mode & 0o077) !== 0)
        throw new Error(`${this.path} can be read by others, its token with it: rotate the token, then run chmod 600 ${this.path}`)
      text = await readFile(this.path, 'utf8')
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
      throw error
    }
    return parse(text, this.path)
  }

  /** Writes it and returns once it is on disk. */
  async save(identity: NodeIdentity): Promise<void> {
    await mkdir(dirname(this.path), { recursive: true, mode: 0o700 })
    const unfinished = `${this.path}.${randomBytes(6).toString('hex')}.tmp`
    try {
      const file = await open(unfinished, 'wx', OWNER_ONLY)
      try {
        await file.writeFile(`${JSON.stringify(identity, null, 2)}\n`)
        await file.sync()
      } finally {
        await file.close()
      }
      if (isPosix) await chmod(unfinished, OWNER_ONLY)
      await rename(unfinished, this.path)
    } catch (error) {
      await rm(unfinished, { force: true })
      throw error
    }
  }

  /** Forgets the token and any pairing: the node has to be paired anew. */
  async forget(): Promise<void> {
    const known = await this.load()
    if (known) await this.save({ nodeId: known.nodeId, gatewayUrl: known.gatewayUrl })
  }

  /** Calls `onChange` whenever the file may have changed. Returns what ends that. */
  watch(onChange: () => void): () => void {
    const name = basename(this.path)
    const watcher = watch(dirname(this.path), { persistent: false }, (_event, changed) => {
      if (changed === null || changed === name) onChange()
    })
    // A watch that breaks only means that a change is taken up at the next start.
    watcher.on('error', () => {
      watcher.close()
    })
    return () => {
      watcher.close()
    }
  }
}

/** The identity file of a node that keeps its state in this folder. */
export const identityIn = (directory: string): IdentityFile => new IdentityFile(join(directory, 'identity.json'))

const parse = (text: string, path: string): NodeIdentity => {
  let read: Partial<NodeIdentity> | null
  try {
    read = JSON.parse(text) as Partial<NodeIdentity> | null
  } catch (error) {
    throw new Error(`${path} is damaged: remove it and pair the node anew`, { cause: error })
  }
  const { nodeId, gatewayUrl, token, pairing } = read ?? {}
  if (typeof nodeId !== 'string' || typeof gatewayUrl !== 'string') throw new Error(`${path} is damaged: remove it and pair the node anew`)
  return {
    nodeId,
    gatewayUrl,
    ...(typeof token === 'string' ? { token } : {}),
    ...(typeof pairing?.secret === 'string' ? { pairing: { secret: pairing.secret } } : {}),
  }
}
