import { CommandError, invalidParams } from '@agent-gateway/sdk/node'
import { constants, open, readlink, realpath, type FileHandle } from 'node:fs/promises'
import { basename, dirname, isAbsolute, join, resolve, sep } from 'node:path'

/** A folder that is held open: names in it cannot be led elsewhere by whoever changes the path meanwhile. */
export interface OpenFolder {
  /** Its real path. */
  path: string
  /** Where a file of this name in it is opened. */
  at(name: string): string
  close(): Promise<void>
}

/** The folders that the machine shares. Nothing outside them is reached, by `..`, absolute paths or links either. */
export class Roots {
  readonly #roots: () => readonly string[]

  constructor(roots: () => readonly string[]) {
    this.#roots = roots
  }

  /** Opens the folder that a file is in. Relative paths are of the first root. */
  async parentOf(path: string): Promise<{ folder: OpenFolder; name: string }> {
    const wanted = this.#resolve(path)
    const name = basename(wanted)
    if (name === '') throw invalidParams('path', 'a file is needed')
    return { folder: await this.#openInside(dirname(wanted), path), name }
  }

  folder(path: string): Promise<OpenFolder> {
    return this.#openInside(this.#resolve(path), path)
  }

  #resolve(path: string): string {
    const [first] = this.#roots()
    if (first === undefined) throw new CommandError('not_authorized', 'This machine shares no folder: its user can, with --root')
    if (path.includes('\0')) throw invalidParams('path', 'it holds a zero byte')
    return isAbsolute(path) ? resolve(path) : resolve(first, path)
  }

  async #openInside(wanted: string, shown: string): Promise<OpenFolder> {
    let handle: FileHandle | undefined
    try {
      handle = await open(wanted, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NONBLOCK)
      const held = handle
      const fd = `/proc/self/fd/${held.fd}`
      const isLinux = process.platform === 'linux'
      const path = isLinux ? await readlink(fd) : await realpath(wanted)
      if (!(await this.#holds(path))) throw outside(shown)
      return { path, at: name => join(isLinux ? fd : path, name), close: () => held.close() }
    } catch (error) {
      await handle?.close()
      // What is outside is not told apart from what is not there.
      if (error instanceof CommandError || !(await this.#mayTell(wanted))) throw outside(shown)
      throw toFileError(error, shown)
    }
  }

  async #holds(real: string): Promise<boolean> {
    for (const root of this.#roots()) {
      const realRoot = await realpath(root).catch(() => undefined)
      if (realRoot !== undefined && isInside(real, realRoot)) return true
    }
    return false
  }

  async #mayTell(wanted: string): Promise<boolean> {
    return this.#roots().some(root => isInside(wanted, resolve(root))) || this.#holds(wanted)
  }
}

const isInside = (path: string, root: string): boolean => path === root || path.startsWith(root.endsWith(sep) ? root : root + sep)

const outside = (path: string): CommandError =>
  new CommandError('not_authorized', `${path} is not in a folder that this machine shares`, { details: { path } })

/** A failure of the file system as a command's failure. */
export const toFileError = (error: unknown, path: string): CommandError => {
  if (error instanceof CommandError) return error
  const { code = '', message } = error as NodeJS.ErrnoException
  if (code === 'ENOENT') return invalidParams('path', `there is no ${path}`)
  if (code === 'ENOTDIR') return invalidParams('path', `${path} is no folder`)
  if (code === 'EISDIR') return invalidParams('path', `${path} is a folder`)
  if (code === 'ELOOP') return invalidParams('path', `${path} is a link, which is not followed`)
  if (code === 'EEXIST') return invalidParams('path', `${path} exists already`)
  if (code === 'EACCES' || code === 'EPERM') return new CommandError('not_authorized', `The user of this node may not touch ${path}`)
  return new CommandError('internal_error', `${path}: ${code === '' ? message : code}`, { cause: error })
}
