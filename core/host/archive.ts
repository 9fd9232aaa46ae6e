import { createHash, randomUUID } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { lstat, mkdir, readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { writeFileAtomically } from '../files.js'
import type { SignatureEvidence } from './signature.js'
import { StageError } from './stage.js'
import type { Unpacker } from './unpacker.js'

export const MAX_ARCHIVE_BYTES = 256 * 1024 * 1024
const DIGEST_LENGTH = 32

export interface UnpackedArchive {
  /** SHA-256 of the archive's bytes, in hex, shortened: what it is known by, wherever it lies and whenever it was written. */
  digest: string
  /** What of `unpackDir` belongs to it. */
  place: string
  /** The plugin's files. */
  directory: string
  evidence: SignatureEvidence
}

/** What an archive is known by. Reads it in small pieces. */
export const digestOf = async (file: string): Promise<string> => {
  const hash = createHash('sha256')
  await pipeline(createReadStream(file), hash)
  return hash.digest('hex').slice(0, DIGEST_LENGTH)
}

/**
 * Unpacks an archive into a directory below `unpackDir` that is named after its content, so that it is done once.
 * Throws `StageError` or `IntegrityError` with what is wrong (see `extractArchive`); nothing is left of such a one.
 */
export const unpackArchive = async (file: string, unpackDir: string, unpacker: Unpacker): Promise<UnpackedArchive> => {
  const { size } = await lstat(file)
  if (size > MAX_ARCHIVE_BYTES) throw new StageError(`the archive is larger than ${MAX_ARCHIVE_BYTES / 1024 / 1024} MiB`)
  const digest = await digestOf(file)
  const place = join(unpackDir, digest)
  const unpacked = { digest, place, directory: join(place, 'plugin') }
  const known = await readEvidence(place)
  if (known) return { ...unpacked, evidence: known }
  await rm(place, { recursive: true, force: true })
  const draft = `${place}.${randomUUID().slice(0, 8)}.partial`
  try {
    await mkdir(join(draft, 'plugin'), { recursive: true, mode: 0o700 })
    const evidence = await unpacker.extract({ file, directory: join(draft, 'plugin') })
    if ((await digestOf(file)) !== digest) throw new StageError('the archive is being changed')
    await writeFileAtomically(join(draft, EVIDENCE_FILE), JSON.stringify(evidence))
    await rename(draft, place)
    return { ...unpacked, evidence }
  } catch (error) {
    await rm(draft, { recursive: true, force: true })
    throw error
  }
}

const EVIDENCE_FILE = 'evidence.json'

/** What was found out when it was unpacked; `undefined` when it was not. */
const readEvidence = async (place: string): Promise<SignatureEvidence | undefined> => {
  try {
    return JSON.parse(await readFile(join(place, EVIDENCE_FILE), 'utf8')) as SignatureEvidence
  } catch {
    return undefined
  }
}
