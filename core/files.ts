import { randomUUID } from 'node:crypto'
import { link, mkdir, open, readdir, rename, rm, stat, writeFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'

const DRAFT = /^\.[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.tmp$/
/** A draft older than this is nobody's any more: writing one takes far less. */
const DRAFT_LIFE_MS = 60_000

/** What is written; pieces one after the other, so that a long text does not hold up everything else. */
type Content = string | Uint8Array | Iterable<string>

/** Syncs a directory, so that a rename in it survives a power cut. Not every file system allows it; those order renames themselves. */
export const syncDirectory = async (directory: string): Promise<void> => {
  const handle = await open(directory, 'r').catch(() => undefined)
  await handle?.sync().catch(() => undefined)
  await handle?.close()
}

/**
 * Replaces the file by `content` in one step: readers see the old or the new one, also after a crash.
 * Created for the owner only (0600), its directory too when missing (0700).
 */
export const writeFileAtomically = (file: string, content: Content): Promise<void> => place(file, content, draft => rename(draft, file))

/** Creates the file in the same way, unless it is there already: never replaces one. Resolves with whether it was this call. */
export const createFileAtomically = async (file: string, content: Content): Promise<boolean> => {
  let created = true
  await place(file, content, async draft => {
    // A link, unlike a rename, fails when its target is there.
    await link(draft, file).catch((error: unknown) => {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
      created = false
    })
    await rm(draft)
  })
  return created
}

/** Removes what writes of the file left behind when they were interrupted. Those that may be under way stay. */
export const removeDrafts = async (file: string): Promise<void> => {
  const directory = dirname(file)
  const name = basename(file)
  const entries = await readdir(directory).catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
    throw error
  })
  for (const entry of entries.filter(other => other.startsWith(name) && DRAFT.test(other.slice(name.length)))) {
    const draft = join(directory, entry)
    const found = await stat(draft).catch(() => undefined)
    if (found && Date.now() - found.mtimeMs > DRAFT_LIFE_MS) await rm(draft, { force: true })
  }
}

/** Writes a synced draft beside the file and has it put in the file's place. */
const place = async (file: string, content: Content, put: (draft: string) => Promise<void>): Promise<void> => {
  const directory = dirname(file)
  await mkdir(directory, { recursive: true, mode: 0o700 })
  const draft = `${file}.${randomUUID()}.tmp`
  try {
    const handle = await open(draft, 'wx', 0o600)
    try {
      await writeFile(handle, content)
      await handle.sync()
    } finally {
      await handle.close()
    }
    await put(draft)
  } catch (error) {
    await rm(draft, { force: true })
    throw error
  }
  await syncDirectory(directory)
}

/** Whether a write failed because the disk, or the writer's share of it, is full. */
export const isDiskFull = (error: unknown): boolean =>
  ['ENOSPC', 'EDQUOT'].includes((error as NodeJS.ErrnoException | undefined)?.code ?? '')
