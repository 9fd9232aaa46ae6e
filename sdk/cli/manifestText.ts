import { readFile, stat } from 'node:fs/promises'
import { CliError } from './project.js'

/** What a gateway takes. */
const MAX_BYTES = 256 * 1024

/** The text of a plugin's `manifest.json`. Throws a `CliError` that says what stands in the way. */
export async function readManifestText(file: string): Promise<string> {
  const stats = await stat(file).catch((error: unknown) => {
    throw new CliError(why(file, error as NodeJS.ErrnoException))
  })
  if (!stats.isFile()) throw new CliError(`${file} is no file: a plugin's manifest is a file of JSON`)
  if (stats.size > MAX_BYTES) throw new CliError(`${file} has ${stats.size} bytes: a gateway takes a manifest of at most ${MAX_BYTES}`)
  const bytes = await readFile(file).catch((error: unknown) => {
    throw new CliError(why(file, error as NodeJS.ErrnoException))
  })
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    throw new CliError(`${file} is no UTF-8 text: save it as UTF-8 in your editor`)
  }
}

const why = (file: string, { code, message }: NodeJS.ErrnoException): string => {
  if (code === 'ENOENT' || code === 'ENOTDIR')
    return `There is no ${file}. Run this in a plugin's folder, name the folder, or make one: service dev new <name> --kind channel`
  if (code === 'EACCES' || code === 'EPERM') return `${file} may not be read by you: change its owner, or its permissions with chmod`
  if (code === 'ELOOP') return `${file} is a link that leads back to itself: put the file itself there`
  return `${file} cannot be read: ${message}`
}
