import { existsSync } from 'node:fs'
import { lstat, readdir, readFile, realpath } from 'node:fs/promises'
import { basename, dirname, join, resolve, sep } from 'node:path'

/** How a plugin's program is started. */
export interface Entry {
  /** A JavaScript file, or another program's command. */
  kind: 'javascript' | 'command'
  /** The file that the convention found, relative to the plugin's directory. */
  file: string
  /** Of a command: its words. Words that name a file beside the entry stand for that file. Else empty. */
  command: string[]
  /** The `X.runtimeconfig.json` beside it, when that is how it was found. Relative to the plugin's directory. */
  runtimeConfig?: string
}

/** Why a directory has no program that may be started. Meant for the administrator and the developer. */
export class EntryError extends Error {
  override readonly name = 'EntryError'
  /** There is no program at all, so far; else there is one that may not be started. */
  readonly missing: boolean

  constructor(message: string, options: { missing?: boolean; cause?: unknown } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.missing = options.missing ?? false
  }
}

const SCRIPTS = ['.js', '.mjs', '.cjs']
const RUNTIME_CONFIG = '.runtimeconfig.json'
const MAX_RUNTIME_CONFIG_BYTES = 64 * 1024
const MAX_COMMAND_WORDS = 32

/**
 * Finds the program by the gateway's convention: `<name>.js|.mjs|.cjs`, then the same in `publish/`, then any file
 * `X` beside an `X.runtimeconfig.json`, which may name another runtime. `name` is the folder's original name. Throws
 * an `EntryError` when there is none, or one that may not be started.
 */
export async function findEntry(directory: string, name = basename(resolve(directory))): Promise<Entry> {
  for (const place of ['', 'publish']) {
    for (const ending of SCRIPTS) {
      const file = join(place, name + ending)
      if (await isInside(directory, file)) return { kind: 'javascript', file, command: [] }
    }
  }
  for (const place of ['', 'publish']) {
    const names = (await readdir(join(directory, place)).catch(() => [])).sort()
    for (const config of names.filter(other => other.endsWith(RUNTIME_CONFIG))) {
      const entry = await entryBeside(directory, place, config, names)
      if (entry) return entry
    }
  }
  throw new EntryError(
    `no program found: expected ${name}.js, .mjs or .cjs in the plugin's directory or its publish/ folder, or a file X beside an X${RUNTIME_CONFIG}`,
    { missing: true },
  )
}

/** `X` is the file of that very name, else the first of that name with an ending: `X.py`. */
async function entryBeside(directory: string, place: string, config: string, names: string[]): Promise<Entry | undefined> {
  const stem = config.slice(0, -RUNTIME_CONFIG.length)
  const program = names.includes(stem) ? stem : names.find(other => other.startsWith(`${stem}.`) && !other.endsWith(RUNTIME_CONFIG))
  if (program === undefined) return undefined
  const [file, runtimeConfig] = [join(place, program), join(place, config)]
  if (!(await isInside(directory, file))) return undefined
  const command = await readCommand(directory, runtimeConfig, program)
  if (command) return { kind: 'command', file, command, runtimeConfig }
  if (SCRIPTS.some(ending => program.endsWith(ending))) return { kind: 'javascript', file, command: [], runtimeConfig }
  throw new EntryError(
    `${config}: ${program} is no JavaScript, so "command" must say how to run it, for example {"command": ["python3", "${program}"]}`,
  )
}

async function readCommand(directory: string, runtimeConfig: string, program: string): Promise<string[] | undefined> {
  const name = basename(runtimeConfig)
  if (!(await isInside(directory, runtimeConfig))) throw new EntryError(`${name} is no regular file`)
  const file = join(directory, runtimeConfig)
  const { size } = await lstat(file)
  if (size > MAX_RUNTIME_CONFIG_BYTES) throw new EntryError(`${name} is larger than ${MAX_RUNTIME_CONFIG_BYTES} bytes`)
  let config: unknown
  try {
    config = JSON.parse(await readFile(file, 'utf8'))
  } catch (error) {
    throw new EntryError(`${name} is not valid JSON: ${(error as Error).message}`, { cause: error })
  }
  const command = typeof config === 'object' && config !== null ? (config as { command?: unknown }).command : undefined
  if (command === undefined) return undefined
  if (isCommand(command)) return command
  throw new EntryError(
    `${name}: "command" must be an array of 1 to ${MAX_COMMAND_WORDS} words, for example {"command": ["python3", "${program}"]}`,
  )
}

const isCommand = (command: unknown): command is string[] =>
  Array.isArray(command) &&
  command.length > 0 &&
  command.length <= MAX_COMMAND_WORDS &&
  command.every(word => typeof word === 'string' && word !== '' && !word.includes('\0'))

/** Whether the file is there, is a regular file, and really lies in the directory. A link out of it is refused. */
async function isInside(directory: string, file: string): Promise<boolean> {
  const path = join(directory, file)
  const stats = await lstat(path).catch(() => undefined)
  if (!stats) return false
  const [root, target] = await Promise.all([realpath(directory), realpath(path)])
  if (!target.startsWith(root + sep)) throw new EntryError(`${file} leads out of the plugin's directory`)
  return stats.isFile()
}

/**
 * A command's words, with those that name a file beside the entry made absolute: the plugin runs in its data
 * directory. The first word is a program, never a file of the plugin's own.
 */
export function resolveCommand(directory: string, { command, file }: Entry): string[] {
  const place = dirname(join(directory, file))
  return command.map((word, index) => (index > 0 && !word.startsWith('-') && existsSync(join(place, word)) ? join(place, word) : word))
}
