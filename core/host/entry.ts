import { lstat, readdir, readFile, realpath } from 'node:fs/promises'
import { basename, join, sep } from 'node:path'

/** How a plugin's program is started. */
export interface Entry {
  /** A JavaScript file, relative to the plugin's directory, or another program's command. */
  kind: 'javascript' | 'command'
  /** For JavaScript: the file. For a command: its words; words that name a file of the plugin are relative to its directory. */
  file: string
  command: string[]
}

/** Why a directory has no program that may be started. Meant for the administrator. */
export class EntryError extends Error {
  override readonly name = 'EntryError'
}

const SCRIPTS = ['.js', '.mjs', '.cjs']
const RUNTIME_CONFIG = '.runtimeconfig.json'
const MAX_RUNTIME_CONFIG_BYTES = 64 * 1024
const MAX_COMMAND_WORDS = 32

/**
 * Finds the program by the gateway's convention: `<name>.js|.mjs|.cjs`, then the same in `publish/`, then any file
 * `X` beside an `X.runtimeconfig.json`, which may name another runtime. `name` is the folder's original name.
 */
export const findEntry = async (directory: string, name: string): Promise<Entry> => {
  for (const place of ['', 'publish']) {
    for (const ending of SCRIPTS) {
      const file = join(place, name + ending)
      if (await isInside(directory, file)) return { kind: 'javascript', file, command: [] }
    }
  }
  for (const place of ['', 'publish']) {
    const names = await readdir(join(directory, place)).catch(() => [])
    for (const config of names.filter(other => other.endsWith(RUNTIME_CONFIG)).sort()) {
      const entry = await entryBeside(directory, place, config.slice(0, -RUNTIME_CONFIG.length), names)
      if (entry) return entry
    }
  }
  throw new EntryError(
    `no program found: expected ${name}.js, .mjs or .cjs in the plugin's directory or its publish/ folder, or a file X beside an X${RUNTIME_CONFIG}`,
  )
}

const entryBeside = async (directory: string, place: string, stem: string, names: string[]): Promise<Entry | undefined> => {
  const program = names.find(other => other === stem || (basename(other).startsWith(`${stem}.`) && !other.endsWith(RUNTIME_CONFIG)))
  if (program === undefined) return undefined
  const file = join(place, program)
  if (!(await isInside(directory, file))) return undefined
  const command = await readCommand(join(directory, place, stem + RUNTIME_CONFIG))
  if (command) return { kind: 'command', file, command: [...command] }
  if (!SCRIPTS.some(ending => program.endsWith(ending)))
    throw new EntryError(`${stem}${RUNTIME_CONFIG} needs a "command" to start ${program}`)
  return { kind: 'javascript', file, command: [] }
}

const readCommand = async (file: string): Promise<string[] | undefined> => {
  const { size } = await lstat(file)
  if (size > MAX_RUNTIME_CONFIG_BYTES) throw new EntryError(`${basename(file)} is larger than ${MAX_RUNTIME_CONFIG_BYTES} bytes`)
  let config: unknown
  try {
    config = JSON.parse(await readFile(file, 'utf8'))
  } catch (error) {
    throw new EntryError(`${basename(file)} is not valid JSON: ${(error as Error).message}`)
  }
  const command = typeof config === 'object' && config !== null ? (config as { command?: unknown }).command : undefined
  if (command === undefined) return undefined
  const valid =
    Array.isArray(command) &&
    command.length > 0 &&
    command.length <= MAX_COMMAND_WORDS &&
    command.every(word => typeof word === 'string' && word !== '' && !word.includes('\0'))
  if (!valid) throw new EntryError(`"command" in ${basename(file)} must be a list of words, for example ["python3", "main.py"]`)
  return command as string[]
}

/** Whether the file is there, is a regular file, and really lies in the directory. A link out of it is refused. */
const isInside = async (directory: string, file: string): Promise<boolean> => {
  const path = join(directory, file)
  const stats = await lstat(path).catch(() => undefined)
  if (!stats) return false
  const [root, target] = await Promise.all([realpath(directory), realpath(path)])
  if (!target.startsWith(root + sep)) throw new EntryError(`${file} leads out of the plugin's directory`)
  return stats.isFile()
}
