import { randomUUID } from 'node:crypto'
import { mkdir, open, rename, rm } from 'node:fs/promises'
import { dirname } from 'node:path'

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
export const writeFileAtomically = async (file: string, content: string | Uint8Array): Promise<void> => {
  const directory = dirname(file)
  await mkdir(directory, { recursive: true, mode: 0o700 })
  const draft = `${file}.${randomUUID()}.tmp`
  try {
    const handle = await open(draft, 'wx', 0o600)
    try {
      await handle.writeFile(content)
      await handle.sync()
    } finally {
      await handle.close()
    }
    await rename(draft, file)
  } catch (error) {
    await rm(draft, { force: true })
    throw error
  }
  await syncDirectory(directory)
}

/** Whether a write failed because the disk, or the writer's share of it, is full. */
export const isDiskFull = (error: unknown): boolean =>
  ['ENOSPC', 'EDQUOT'].includes((error as NodeJS.ErrnoException | undefined)?.code ?? '')
