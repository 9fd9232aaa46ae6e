import { createHash } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { lstat, mkdir, rename, rm } from 'node:fs/promises'
import { dirname, join, normalize, sep } from 'node:path'
import { pipeline } from 'node:stream/promises'
import type { Entry, ZipFile } from 'yauzl'
import { StageError } from './stage.js'

export const ARCHIVE_ENDING = '.service-plugin'

/** Against bombs: what an archive may unpack to, as its directory declares it and as it really comes out. */
const MAX_ENTRIES = 5_000
const MAX_BYTES = 256 * 1024 * 1024
const MAX_NAME_LENGTH = 300
const FILE_TYPE_MASK = 0o170000
const REGULAR_FILE = 0o100000

/**
 * Unpacks an archive into a directory below `unpackDir` that is named after its state, so that it is done once.
 * Throws `StageError` for damage, names that lead out, links, devices and too much; nothing is left of such a one.
 */
export const unpackArchive = async (file: string, unpackDir: string): Promise<string> => {
  const { size, mtimeMs } = await lstat(file)
  const target = join(unpackDir, createHash('sha256').update(`${file}\0${size}\0${mtimeMs}`).digest('hex').slice(0, 24))
  if (await lstat(target).catch(() => undefined)) return target
  const draft = `${target}.partial`
  await rm(draft, { recursive: true, force: true })
  await mkdir(draft, { recursive: true, mode: 0o700 })
  try {
    await extract(file, draft)
  } catch (error) {
    await rm(draft, { recursive: true, force: true })
    if (error instanceof StageError) throw error
    throw new StageError(`the archive cannot be read: ${(error as Error).message}`)
  }
  await rename(draft, target)
  return target
}

const extract = async (file: string, directory: string): Promise<void> => {
  // A CommonJS module: once it is bundled, the default export is all it has.
  const { default: yauzl } = await import('yauzl')
  const zip = await new Promise<ZipFile>((resolve, reject) => {
    // Sizes are validated while reading, so an entry cannot unpack to more than it declares.
    yauzl.open(file, { lazyEntries: true, autoClose: false, strictFileNames: true, validateEntrySizes: true }, (error, opened) => {
      if (error) reject(error)
      else resolve(opened)
    })
  })
  try {
    await extractEntries(zip, directory)
  } finally {
    zip.close()
  }
}

const extractEntries = (zip: ZipFile, directory: string): Promise<void> =>
  new Promise((resolve, reject) => {
    let entries = 0
    let bytes = 0
    zip.on('error', reject)
    zip.on('end', resolve)
    zip.on('entry', (entry: Entry) => {
      entries += 1
      bytes += entry.uncompressedSize
      if (entries > MAX_ENTRIES || bytes > MAX_BYTES) {
        reject(new StageError(`the archive holds more than ${MAX_ENTRIES} files or ${MAX_BYTES / 1024 / 1024} MiB`))
        return
      }
      extractEntry(zip, entry, directory).then(() => {
        zip.readEntry()
      }, reject)
    })
    zip.readEntry()
  })

const extractEntry = async (zip: ZipFile, entry: Entry, directory: string): Promise<void> => {
  const name = checkedName(entry)
  const path = join(directory, name)
  if (entry.fileName.endsWith('/')) {
    await mkdir(path, { recursive: true, mode: 0o700 })
    return
  }
  await mkdir(dirname(path), { recursive: true, mode: 0o700 })
  const stream = await new Promise<NodeJS.ReadableStream>((resolve, reject) => {
    zip.openReadStream(entry, (error, opened) => {
      if (error) reject(error)
      else resolve(opened)
    })
  })
  // `wx`: a name that comes twice is an error, not a replacement.
  await pipeline(stream, createWriteStream(path, { flags: 'wx', mode: 0o600 }))
}

const checkedName = (entry: Entry): string => {
  const { fileName } = entry
  const name = normalize(fileName)
  const type = (entry.externalFileAttributes >>> 16) & FILE_TYPE_MASK
  if (name.startsWith('..') || name.startsWith(sep) || fileName.includes('\\') || /^[a-z]:/i.test(fileName))
    throw new StageError(`the archive holds a name that leads out of it: ${fileName.slice(0, 100)}`)
  if (fileName.length > MAX_NAME_LENGTH || /[\u0000-\u001f]/.test(fileName)) throw new StageError('the archive holds an absurd file name')
  if (!fileName.endsWith('/') && type !== 0 && type !== REGULAR_FILE)
    throw new StageError(`${fileName.slice(0, 100)} in the archive is a link or a device`)
  if (entry.isEncrypted()) throw new StageError(`${fileName.slice(0, 100)} in the archive is encrypted`)
  return name
}
