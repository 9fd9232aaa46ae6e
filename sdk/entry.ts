import { readdir, readFile, stat } from 'node:fs/promises'
import { basename, join, resolve } from 'node:path'

/** How a plugin's program is started. */
export interface PluginEntry {
  /** The file the convention found, relative to the plugin's folder. */
  file: string
  /** Program and arguments. Words that name a file of the plugin are relative to its folder. */
  command: string[]
  /** The `X.runtimeconfig.json` beside it, when that is how it was found. */
  runtimeConfig?: string
}

const SCRIPT_ENDINGS = ['.js', '.mjs', '.cjs']
const CONFIG_ENDING = '.runtimeconfig.json'

/**
 * Finds the entry file by the gateway's convention: `<directory-name>.js|.mjs|.cjs`, then the same in `publish/`, then
 * any file `X` beside an `X.runtimeconfig.json`. `name` stands for the folder's name where that is not the original one.
 */
export async function findEntry(directory: string, name = basename(resolve(directory))): Promise<PluginEntry | undefined> {
  for (const folder of ['', 'publish']) {
    for (const ending of SCRIPT_ENDINGS) {
      const file = join(folder, `${name}${ending}`)
      if (await isFile(join(directory, file))) return { file, command: [process.execPath, file] }
    }
  }
  for (const folder of ['', 'publish']) {
    const files = (await readdir(join(directory, folder)).catch(() => [])).sort()
    for (const config of files.filter(file => file.endsWith(CONFIG_ENDING))) {
      const entry = await readRuntimeConfig(directory, folder, config, files)
      if (entry) return entry
    }
  }
  return undefined
}

/** `X` is the file of that very name, else the first of that name with an ending: `X.py`. */
async function readRuntimeConfig(directory: string, folder: string, config: string, files: string[]): Promise<PluginEntry | undefined> {
  const name = config.slice(0, -CONFIG_ENDING.length)
  const program = files.includes(name) ? name : files.find(other => other.startsWith(`${name}.`) && !other.endsWith(CONFIG_ENDING))
  if (program === undefined || !(await isFile(join(directory, folder, program)))) return undefined
  const [file, runtimeConfig] = [join(folder, program), join(folder, config)]
  const command = readCommand(await readFile(join(directory, runtimeConfig), 'utf8'), config)
  if (command) return { file, command, runtimeConfig }
  if (SCRIPT_ENDINGS.some(ending => file.endsWith(ending))) return { file, command: [process.execPath, file], runtimeConfig }
  throw new Error(
    `${config}: ${file} is no JavaScript, so "command" must say how to run it, for example {"command": ["python3", "${file}"]}`,
  )
}

function readCommand(text: string, config: string): string[] | undefined {
  let json: unknown
  try {
    json = JSON.parse(text)
  } catch (error) {
    throw new Error(`${config} is not valid JSON: ${(error as Error).message}`, { cause: error })
  }
  const command = (json as { command?: unknown } | null)?.command
  if (command === undefined) return undefined
  if (Array.isArray(command) && command.length > 0 && command.every(part => typeof part === 'string' && part !== ''))
    return command as string[]
  throw new Error(`${config}: "command" must be an array of strings, for example ["python3", "program.py"]`)
}

const isFile = async (path: string): Promise<boolean> => (await stat(path).catch(() => undefined))?.isFile() ?? false
