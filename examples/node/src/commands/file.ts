import { choice, defineCommand, integer, invalidParams, string, withDefault, type AnyCommand } from '@agent-gateway/sdk/node'
import { randomBytes } from 'node:crypto'
import { constants, lstat, open, readdir, rename, rm, type FileHandle } from 'node:fs/promises'
import { toFileError, type OpenFolder, type Roots } from '../roots.js'

/** In base64 still less than what a result may have. */
const MAX_READ_BYTES = 8 * 1024 * 1024
const MAX_WRITE_CHARACTERS = 1_000_000
const MAX_ENTRIES = 2000
/** Links are not followed, and a pipe does not make the node wait. */
const SAFELY = constants.O_NOFOLLOW | constants.O_NONBLOCK

const path = string({ maxLength: 4096 })
const encoding = withDefault(choice('utf8', 'base64'), 'utf8')

/** Commands over files in the folders that the machine shares. */
export const fileCommands = (roots: Roots): AnyCommand[] => [fileList(roots), fileRead(roots), fileWrite(roots)]

const fileList = (roots: Roots) =>
  defineCommand({
    name: 'file.list',
    params: { path: withDefault(path, '.'), limit: withDefault(integer({ min: 1, max: MAX_ENTRIES }), 500) },
    repeatable: true,
    run: async ({ path: wanted, limit }) => {
      const folder = await roots.folder(wanted)
      try {
        const names = (await readdir(folder.at('.'))).sort()
        const entries = await Promise.all(names.slice(0, limit).map(name => toEntry(folder, name)))
        return { path: folder.path, entries: entries.flat(), isComplete: names.length <= limit }
      } catch (error) {
        throw toFileError(error, wanted)
      } finally {
        await folder.close()
      }
    },
  })

const toEntry = async (folder: OpenFolder, name: string): Promise<object[]> => {
  try {
    const stats = await lstat(folder.at(name))
    const type = stats.isFile() ? 'file' : stats.isDirectory() ? 'folder' : stats.isSymbolicLink() ? 'link' : 'other'
    return [{ name, type, sizeBytes: stats.size, modifiedAt: stats.mtime.toISOString() }]
  } catch {
    // It went meanwhile.
    return []
  }
}

const fileRead = (roots: Roots) =>
  defineCommand({
    name: 'file.read',
    params: {
      path,
      encoding,
      offset: withDefault(integer({ min: 0 }), 0),
      length: withDefault(integer({ min: 1, max: MAX_READ_BYTES }), 1024 * 1024),
    },
    repeatable: true,
    run: ({ path: wanted, encoding: as, offset, length }) =>
      inFolderOf(roots, wanted, async (folder, name) => {
        const file = await openFile(folder.at(name), constants.O_RDONLY)
        try {
          const { size } = await file.stat()
          const bytes = Buffer.alloc(Math.max(0, Math.min(length, size - offset)))
          let read = 0
          while (read < bytes.length) {
            const { bytesRead } = await file.read(bytes, read, bytes.length - read, offset + read)
            if (bytesRead === 0) break
            read += bytesRead
          }
          return {
            content: bytes.toString(as, 0, read),
            encoding: as,
            offset,
            length: read,
            sizeBytes: size,
            isComplete: offset + read >= size,
          }
        } finally {
          await file.close()
        }
      }),
  })

const fileWrite = (roots: Roots) =>
  defineCommand({
    name: 'file.write',
    params: {
      path,
      content: string({ minLength: 0, maxLength: MAX_WRITE_CHARACTERS }),
      encoding,
      mode: withDefault(choice('create', 'replace', 'append'), 'create'),
    },
    run: ({ path: wanted, content, encoding: as, mode }) =>
      inFolderOf(roots, wanted, async (folder, name) => {
        const bytes = Buffer.from(content, as)
        if (mode === 'replace') await replace(folder, name, bytes)
        else {
          const how = mode === 'create' ? constants.O_EXCL : constants.O_APPEND
          const file = await openFile(folder.at(name), constants.O_WRONLY | constants.O_CREAT | how)
          await writeTo(file, bytes)
        }
        return { path: `${folder.path}/${name}`, sizeBytes: (await lstat(folder.at(name))).size }
      }),
  })

/** Whoever reads the file meanwhile sees the old or the new one, never half of it. */
const replace = async (folder: OpenFolder, name: string, bytes: Buffer): Promise<void> => {
  const known = await lstat(folder.at(name)).catch(() => undefined)
  if (known && !known.isFile()) throw invalidParams('path', `${name} is no file`)
  const unfinished = folder.at(`.${randomBytes(8).toString('hex')}.tmp`)
  try {
    await writeTo(await open(unfinished, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | SAFELY, known?.mode ?? 0o666), bytes)
    await rename(unfinished, folder.at(name))
  } catch (error) {
    await rm(unfinished, { force: true })
    throw error
  }
}

const writeTo = async (file: FileHandle, bytes: Buffer): Promise<void> => {
  try {
    await file.writeFile(bytes)
    await file.sync()
  } finally {
    await file.close()
  }
}

const openFile = async (at: string, flags: number): Promise<FileHandle> => {
  const file = await open(at, flags | SAFELY)
  if ((await file.stat()).isFile()) return file
  await file.close()
  throw invalidParams('path', 'it is no file')
}

const inFolderOf = async <T>(roots: Roots, wanted: string, work: (folder: OpenFolder, name: string) => Promise<T>): Promise<T> => {
  const { folder, name } = await roots.parentOf(wanted)
  try {
    return await work(folder, name)
  } catch (error) {
    throw toFileError(error, wanted)
  } finally {
    await folder.close()
  }
}
