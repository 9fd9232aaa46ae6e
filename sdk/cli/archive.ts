import { createWriteStream } from 'node:fs'
import { mkdir, readFile, rename, rm } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { ZipFile } from 'yazl'
import { DIGESTS_FILE, INTEGRITY_FOLDER, sha256, SIGNATURE_FILE, writeDigests } from '../archiveFormat.js'
import { ArchiveNames, show } from '../archiveNames.js'
import { archiveFiles } from './archiveFiles.js'
import type { Bundle } from './bundle.js'
import { CliError, type PluginProject } from './project.js'
import type { Signer } from './signing.js'

/** The earliest time a ZIP can hold: the same input makes the same bytes, whenever and wherever it is built. */
const FIXED_TIME = new Date('1980-01-01T00:00:00Z')

interface ArchiveOptions {
  /** The bundle of a JavaScript plugin. */
  script: Pick<Bundle, 'text' | 'ending'> | undefined
  out: string
  /** Signs the text of the digests. */
  sign: Signer | undefined
}

/** Writes the `.service-plugin` archive with the digests of its files. Returns the names inside. */
export async function writeArchive(project: PluginProject, { script, out, sign }: ArchiveOptions): Promise<string[]> {
  const entries = new Map<string, Buffer>([['manifest.json', await readFile(join(project.directory, 'manifest.json'))]])
  if (script !== undefined) entries.set(project.manifest.name + script.ending, Buffer.from(script.text))
  for (const file of await archiveFiles(project, script !== undefined)) {
    if (!entries.has(file)) entries.set(file, await readFile(join(project.directory, file)))
  }
  checkNames(entries.keys())
  const digests = writeDigests(new Map([...entries].map(([name, content]) => [name, sha256(content)])))
  entries.set(DIGESTS_FILE, Buffer.from(digests))
  if (sign) entries.set(SIGNATURE_FILE, Buffer.from(sign(digests)))
  const names = [...entries.keys()].sort((a, b) => (a < b ? -1 : 1))
  const zip = new ZipFile()
  for (const name of names) {
    zip.addBuffer(entries.get(name) ?? Buffer.alloc(0), name, { mtime: FIXED_TIME, mode: 0o100644, forceDosTimestamp: true })
  }
  zip.end()
  const unfinished = `${out}.${process.pid}.tmp`
  try {
    await mkdir(dirname(resolve(out)), { recursive: true })
    await pipeline(zip.outputStream, createWriteStream(unfinished))
    await rename(unfinished, out)
  } catch (error) {
    await rm(unfinished, { force: true }).catch(() => undefined)
    throw new CliError(`The archive cannot be written to ${out}: ${(error as Error).message}. Name another file with --out`)
  }
  return names
}

/** The gateway refuses such names, and with them the archive. */
function checkNames(names: Iterable<string>): void {
  const known = new ArchiveNames()
  for (const name of names) {
    const wrong = name.startsWith(INTEGRITY_FOLDER) ? `is below ${INTEGRITY_FOLDER}, which the archive keeps for itself` : known.add(name)
    if (wrong !== undefined) throw new CliError(`The file name ${show(name)} ${wrong}: rename it, or leave it out of "files"`)
  }
}
