import { execFile } from 'node:child_process'
import { constants } from 'node:fs'
import { open, opendir, rm, rmdir, unlink } from 'node:fs/promises'
import { promisify } from 'node:util'

const REMOVE = '/bin/rm'
/** A directory with more than this in it, or deeper, is removed by the system's program. */
const MAX_ENTRIES = 200
const MAX_DEPTH = 8

/**
 * Removes a directory in which a plugin is still at work. Node's own way goes by paths: a plugin that puts a link in the
 * place of a directory at the right moment would have it remove what the link leads to. This one goes by handles, as the
 * system's `rm` does, whose start would hold up the event loop for milliseconds: it is for what is large or resists.
 */
export const removeTree = async (path: string): Promise<void> => {
  if (process.platform === 'win32') {
    await rm(path, { recursive: true, force: true })
    return
  }
  try {
    if (process.platform !== 'linux') throw new TooMuch()
    await removeByHandles(path, MAX_DEPTH, { left: MAX_ENTRIES })
  } catch {
    // Whatever was in the way, the program tries it again and says what it is.
    await promisify(execFile)(REMOVE, ['-rf', '--', path], { env: {} })
  }
}

class TooMuch extends Error {}

/** What is in the directory is named below the handle, so that its path no longer matters. A link is removed, never followed. */
const removeByHandles = async (path: string, depth: number, entries: { left: number }): Promise<void> => {
  if (depth === 0 || entries.left-- === 0) throw new TooMuch()
  if (await isUnlinked(path)) return
  const handle = await open(path, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW)
  try {
    const inside = `/proc/self/fd/${handle.fd}`
    for await (const { name } of await opendir(inside)) await removeByHandles(`${inside}/${name}`, depth - 1, entries)
  } finally {
    await handle.close()
  }
  await rmdir(path)
}

/** `false`: it is a directory. */
const isUnlinked = async (path: string): Promise<boolean> => {
  try {
    await unlink(path)
    return true
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') return true
    if (code === 'EISDIR' || code === 'EPERM') return false
    throw error
  }
}
