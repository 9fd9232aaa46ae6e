import { createWriteStream } from 'node:fs'
import { mkdir, readdir, readFile, rename, rm, stat } from 'node:fs/promises'
import { dirname, join, relative, resolve, sep } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { ZipFile } from 'yazl'
import { DIGESTS_FILE, INTEGRITY_FOLDER, sha256, SIGNATURE_FILE, writeDigests } from '../archiveFormat.js'
import { ArchiveNames, show } from '../archiveNames.js'
import { findEntry } from '../entry.js'
import type { Bundle } from './bundle.js'
import { CliError, type PluginProject } from './project.js'

/** The earliest time a ZIP can hold: the same input makes the same bytes, whenever and wherever it is built. */
const FIXED_TIME = new Date('1980-01-01T00:00:00Z')

interface ArchiveOptions {
  /** The bundle of a JavaScript plugin. */
  script: Pick<Bundle, 'text' | 'ending'> | undefined
  out: string
  /** Signs the text of the digests. */
  sign: ((digests: string) => string) | undefined
}

/** Writes the `.service-plugin` archive with the digests of its files. Returns the names inside. */
export async function writeArchive(project: PluginProject, { script, out, sign }: ArchiveOptions): Promise<string[]> {
  const entries = new Map<string, Buffer>([['manifest.json', await readFile(join(project.directory, 'manifest.json'))]])
  if (script !== undefined) entries.set(project.manifest.name + script.ending, Buffer.from(script.text))
  for (const file of await listFiles(project, script === undefined ? await programFiles(project) : [])) {
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
  await mkdir(dirname(resolve(out)), { recursive: true })
  const unfinished = `${out}.${process.pid}.tmp`
  try {
    await pipeline(zip.outputStream, createWriteStream(unfinished))
    await rename(unfinished, out)
  } catch (error) {
    await rm(unfinished, { force: true })
    throw error
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

/** Of a program in another language: the entry, its runtime configuration, and what its command names beside it. */
async function programFiles({ directory, manifest }: PluginProject): Promise<string[]> {
  const entry = await findEntry(directory, manifest.name)
  const beside = entry.command.map(word => join(dirname(entry.file), word))
  const named = await Promise.all(beside.map(async file => ((await isFile(join(directory, file))) ? [file] : [])))
  return [...(entry.runtimeConfig === undefined ? [] : [entry.runtimeConfig]), entry.file, manifest.entrypoint, ...named.flat()]
}

async function listFiles({ directory, files }: PluginProject, program: string[]): Promise<string[]> {
  const found: string[] = []
  for (const path of [...program, ...files]) {
    const whole = join(directory, path)
    if ((await stat(whole)).isFile()) found.push(path)
    else {
      const inside = await readdir(whole, { recursive: true, withFileTypes: true })
      found.push(...inside.filter(entry => entry.isFile()).map(entry => relative(directory, join(entry.parentPath, entry.name))))
    }
  }
  return found.map(path => relative(directory, join(directory, path)).split(sep).join('/'))
}

const isFile = async (path: string): Promise<boolean> => (await stat(path).catch(() => undefined))?.isFile() ?? false
