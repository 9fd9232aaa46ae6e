import { constants } from 'node:fs'
import { mkdir, mkdtemp, open, realpath, rename, rm, type FileHandle } from 'node:fs/promises'
import { basename, join, sep } from 'node:path'
import { removeTree } from './removeTree.js'

/** Files that travel with one call, in a directory that the plugin can read and write. */
export interface Exchange {
  /** The directory as the plugin sees it. */
  readonly pathInPlugin: string
  /** Opens a regular file in it for reading; rejects for anything that leads out of the plugin's exchange directory. */
  open(path: string): Promise<FileHandle>
  remove(): Promise<void>
}

interface Place {
  /** Holds nothing but exchanges of this plugin. The plugin can change what is in it, but not replace it. */
  root: string
  rootInPlugin: string
  /** Out of the plugin's reach, on the same disk. */
  draftRoot: string
}

/**
 * Makes an exchange. `fill` puts the files into a draft that the plugin cannot reach; then it is moved into place in
 * one step. After that nothing is written through the plugin's directory, where it may put links meanwhile.
 */
export const createExchange = async (
  { root, rootInPlugin, draftRoot }: Place,
  fill: (draft: string) => Promise<void>,
): Promise<Exchange> => {
  await mkdir(draftRoot, { recursive: true, mode: 0o700 })
  const draft = await mkdtemp(join(draftRoot, 'x-'))
  const path = join(root, basename(draft))
  try {
    await fill(draft)
    await rename(draft, path)
  } catch (error) {
    await rm(draft, { recursive: true, force: true })
    throw error
  }
  return {
    pathInPlugin: join(rootInPlugin, basename(draft)),
    open: file => openInside(root, join(path, file)),
    remove: () => removeTree(path),
  }
}

/** What was opened is looked at, not what the path said before: the plugin may change links in between. */
const openInside = async (root: string, file: string): Promise<FileHandle> => {
  const real = (await realpath(root)) + sep
  const outside = new Error('the plugin named a file that is not in its exchange directory')
  if (!(await realpath(file).catch(() => '')).startsWith(real)) throw outside
  // Non-blocking: a pipe in the place of a file would otherwise wait for a writer.
  const handle = await open(file, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  try {
    const opened = process.platform === 'linux' ? await realpath(`/proc/self/fd/${handle.fd}`) : await realpath(file)
    if (!opened.startsWith(real) || !(await handle.stat()).isFile()) throw outside
    return handle
  } catch (error) {
    await handle.close()
    throw error
  }
}
