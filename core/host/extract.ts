import { createHash } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { Transform, Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { crc32 } from 'node:zlib'
import { open, type Entry, type ZipFile } from 'yauzl'
import { DIGESTS_FILE, INTEGRITY_FOLDER, readDigests, readSignature, SIGNATURE_FILE } from '../../sdk/archiveFormat.js'
import { ArchiveNames, show } from '../../sdk/archiveNames.js'
import type { SignatureEvidence } from './signature.js'
import { IntegrityError, StageError } from './stage.js'

/** Against bombs: what an archive may unpack to, as its directory declares it and as it really comes out. */
const MAX_ENTRIES = 5_000
const MAX_BYTES = 256 * 1024 * 1024
const MAX_INTEGRITY_BYTES = 4 * 1024 * 1024
const FILE_TYPE_MASK = 0o170000
const REGULAR_FILE = 0o100000
const DIRECTORY = 0o040000

interface Extracted {
  /** Name to SHA-256 of everything that was written. */
  digests: Map<string, string>
  /** The archive's own files about itself. */
  integrity: Map<string, string>
}

/**
 * Unpacks an archive into an empty directory and checks it. Throws `StageError` for damage, names that lead out or mean
 * something else elsewhere, links, devices and too much, `IntegrityError` for files that are extra, missing or changed
 * and for a bad signature. What it has written until then stays.
 */
export const extractArchive = async (file: string, directory: string): Promise<SignatureEvidence> => {
  const zip = await openZip(file)
  try {
    const extracted = await extractEntries(zip, directory)
    if (!extracted.digests.has('manifest.json')) throw new StageError('the archive holds no manifest.json')
    return checkIntegrity(extracted)
  } catch (error) {
    throw error instanceof StageError || isOfTheSystem(error) ? error : unreadable(error)
  } finally {
    zip.close()
  }
}

const unreadable = (error: unknown): StageError => new StageError(`the archive cannot be read: ${(error as Error).message}`)

/** A full disk or a missing right says nothing about the archive. */
const isOfTheSystem = (error: unknown): boolean => (error as NodeJS.ErrnoException).syscall !== undefined

const openZip = (file: string): Promise<ZipFile> =>
  new Promise((resolve, reject) => {
    // Sizes are validated while reading, so an entry cannot unpack to more than it declares.
    open(file, { lazyEntries: true, autoClose: false, strictFileNames: true, validateEntrySizes: true }, (error, opened) => {
      if (error) reject(unreadable(error))
      else resolve(opened)
    })
  })

const extractEntries = (zip: ZipFile, directory: string): Promise<Extracted> =>
  new Promise((resolve, reject) => {
    const tooMuch = new StageError(`the archive holds more than ${MAX_ENTRIES} files or ${MAX_BYTES / 1024 / 1024} MiB`)
    const names = new ArchiveNames()
    const extracted: Extracted = { digests: new Map(), integrity: new Map() }
    let entries = 0
    let bytes = 0
    zip.on('error', reject)
    zip.on('end', () => {
      resolve(extracted)
    })
    zip.on('entry', (entry: Entry) => {
      entries += 1
      bytes += entry.uncompressedSize
      if (entries > MAX_ENTRIES || bytes > MAX_BYTES) {
        reject(tooMuch)
        return
      }
      extractEntry(zip, entry, { directory, names, extracted }).then(() => {
        zip.readEntry()
      }, reject)
    })
    if (zip.entryCount > MAX_ENTRIES) reject(tooMuch)
    else zip.readEntry()
  })

interface Target {
  directory: string
  names: ArchiveNames
  extracted: Extracted
}

const extractEntry = async (zip: ZipFile, entry: Entry, { directory, names, extracted }: Target): Promise<void> => {
  const { fileName } = entry
  checkEntry(entry)
  const wrong = names.add(fileName)
  if (wrong !== undefined) throw new StageError(`the name ${show(fileName)} in the archive ${wrong}`)
  if (isIntegrityFile(entry)) {
    const chunks: Buffer[] = []
    const keep = new Writable({
      write: (chunk: Buffer, _encoding, done) => {
        chunks.push(chunk)
        done()
      },
    })
    await copyEntry(zip, entry, keep)
    extracted.integrity.set(fileName, Buffer.concat(chunks).toString('utf8'))
    return
  }
  const path = join(directory, fileName)
  if (fileName.endsWith('/')) {
    await mkdir(path, { recursive: true, mode: 0o700 })
    return
  }
  await mkdir(dirname(path), { recursive: true, mode: 0o700 })
  // `wx`: never through something that is there already.
  extracted.digests.set(fileName, await copyEntry(zip, entry, createWriteStream(path, { flags: 'wx', mode: 0o600 })))
}

/** Streams one entry out and returns its SHA-256. The reader compares sizes only, so the checksum is compared here. */
const copyEntry = async (zip: ZipFile, entry: Entry, target: Writable): Promise<string> => {
  const source = await new Promise<NodeJS.ReadableStream>((resolve, reject) => {
    zip.openReadStream(entry, (error, opened) => {
      if (error) reject(error)
      else resolve(opened)
    })
  })
  const hash = createHash('sha256')
  let checksum = 0
  const observe = new Transform({
    transform: (chunk: Buffer, _encoding, done) => {
      hash.update(chunk)
      checksum = crc32(chunk, checksum)
      done(null, chunk)
    },
  })
  await pipeline(source, observe, target)
  if (checksum !== entry.crc32) throw new StageError(`${show(entry.fileName)} in the archive is damaged: its checksum is wrong`)
  return hash.digest('hex')
}

const checkEntry = (entry: Entry): void => {
  const type = (entry.externalFileAttributes >>> 16) & FILE_TYPE_MASK
  const expected = entry.fileName.endsWith('/') ? DIRECTORY : REGULAR_FILE
  if (type !== 0 && type !== expected) throw new StageError(`${show(entry.fileName)} in the archive is a link or a device`)
  if (entry.isEncrypted()) throw new StageError(`${show(entry.fileName)} in the archive is encrypted`)
}

const isIntegrityFile = ({ fileName, uncompressedSize }: Entry): boolean => {
  if (fileName !== DIGESTS_FILE && fileName !== SIGNATURE_FILE) return false
  if (uncompressedSize > MAX_INTEGRITY_BYTES) throw new StageError(`${fileName} in the archive is larger than ${MAX_INTEGRITY_BYTES} bytes`)
  return true
}

const checkIntegrity = ({ digests, integrity }: Extracted): SignatureEvidence => {
  const stray = [...digests.keys()].find(name => name.toLowerCase().startsWith(INTEGRITY_FOLDER))
  if (stray !== undefined) throw new IntegrityError(`${show(stray)} does not belong into the archive`)
  const text = integrity.get(DIGESTS_FILE)
  const signature = integrity.get(SIGNATURE_FILE)
  if (text === undefined) {
    if (signature !== undefined) throw new IntegrityError(`${SIGNATURE_FILE} signs ${DIGESTS_FILE}, which is missing`)
    return { kind: 'undigested' }
  }
  const declared = readDigests(text)
  if (!declared) throw new IntegrityError(`${DIGESTS_FILE} is damaged`)
  compareDigests(declared, digests)
  if (signature === undefined) return { kind: 'unsigned' }
  try {
    return { kind: 'signed', key: readSignature(signature, text).key }
  } catch (error) {
    throw new IntegrityError((error as Error).message)
  }
}

const compareDigests = (declared: ReadonlyMap<string, string>, found: ReadonlyMap<string, string>): void => {
  const why = `${DIGESTS_FILE} says otherwise: get the archive again from who made it`
  for (const [name, digest] of found) {
    const expected = declared.get(name)
    if (expected === undefined) throw new IntegrityError(`the file ${show(name)} was added to the archive: ${why}`)
    if (expected !== digest) throw new IntegrityError(`the file ${show(name)} in the archive was changed: ${why}`)
  }
  const missing = [...declared.keys()].find(name => !found.has(name))
  if (missing !== undefined) throw new IntegrityError(`the file ${show(missing)} is missing from the archive: ${why}`)
}
