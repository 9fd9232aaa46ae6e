import { createWriteStream } from 'node:fs'
import { mkdir, readdir, readFile, rename, stat } from 'node:fs/promises'
import { basename, dirname, join, relative } from 'node:path'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { parseManifest, type Manifest } from './manifest.js'

export const ARCHIVE_ENDING = '.service-plugin'

/** What the gateway takes of an archive. */
export const MAX_ARCHIVE_FILES = 5000
export const MAX_ARCHIVE_BYTES = 256 * 1024 * 1024
const SKIPPED = new Set(['node_modules', '.git'])

/** The folder's manifest; none when there is no such file. Throws what the gateway would show as the reason. */
export async function readManifest(folder: string): Promise<Manifest | undefined> {
  const text = await readFile(join(folder, 'manifest.json'), 'utf8').catch(() => undefined)
  if (text === undefined) return undefined
  let json: unknown
  try {
    json = JSON.parse(text)
  } catch (error) {
    throw new Error(`${folder}: manifest.json is no valid JSON: ${(error as Error).message}`, { cause: error })
  }
  const parsed = parseManifest(json, { directoryName: basename(folder) })
  if (parsed.kind === 'manifest') return parsed.manifest
  throw new Error(
    `${folder}: ${parsed.kind === 'rejected' ? `the manifest is rejected: ${parsed.reason}` : 'the manifest has no pluginInterface'}`,
  )
}

/** Every file below the folder, with what changes when it is written; without `node_modules`. */
export async function listFolder(folder: string): Promise<Map<string, string>> {
  const files = new Map<string, string>()
  const walk = async (directory: string): Promise<void> => {
    for (const entry of await readdir(directory, { withFileTypes: true })) {
      const path = join(directory, entry.name)
      if (entry.isDirectory() && !SKIPPED.has(entry.name)) await walk(path)
      if (!entry.isFile()) continue
      const { size, mtimeMs } = await stat(path)
      files.set(relative(folder, path), `${size} ${mtimeMs}`)
    }
  }
  await walk(folder)
  return files
}

/** Unpacks a `.service-plugin` below `directory`, into a folder of its manifest's name, and returns that. */
export async function unpackPlugin(archive: string, directory: string): Promise<string> {
  const draft = join(directory, 'unpacked')
  await mkdir(draft, { recursive: true })
  await unpack(archive, draft)
  const manifest = await readManifest(draft)
  if (!manifest) throw new Error(`${archive} holds no manifest.json`)
  const folder = join(directory, manifest.name)
  if (folder !== draft) await rename(draft, folder)
  return folder
}

async function unpack(archive: string, directory: string): Promise<void> {
  const { openPromise } = await import('yauzl')
  const zip = await openPromise(archive, { strictFileNames: true, autoClose: false }).catch((error: unknown) => {
    throw new Error(`${archive} cannot be read: ${(error as Error).message}`, { cause: error })
  })
  try {
    let [entries, bytes] = [0, 0]
    for await (const entry of zip.eachEntry()) {
      entries += 1
      bytes += entry.uncompressedSize
      if (entries > MAX_ARCHIVE_FILES || bytes > MAX_ARCHIVE_BYTES)
        throw new Error(`${archive} holds more than ${MAX_ARCHIVE_FILES} files or ${MAX_ARCHIVE_BYTES / 1024 / 1024} MiB`)
      if (entry.fileName.endsWith('/')) continue
      const path = join(directory, entry.fileName)
      await mkdir(dirname(path), { recursive: true })
      const content: Readable = await zip.openReadStreamPromise(entry)
      await pipeline(content, createWriteStream(path, { flags: 'wx' }))
    }
  } finally {
    zip.close()
  }
}
