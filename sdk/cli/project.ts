import { stat } from 'node:fs/promises'
import { basename, join, relative, resolve } from 'node:path'
import { EntryError, findEntry } from '../entry.js'
import type { Manifest } from '../manifest.js'
import { shown } from '../manifestIssues.js'
import { readManifestText } from './manifestText.js'
import { validateForPublishing, type AddProblem, type ManifestProblem } from './publishing.js'

/** Shown to the developer as it is, without a stack. */
export class CliError extends Error {}

/** A plugin's folder with a manifest that can be published. */
export interface PluginProject {
  directory: string
  /** What the gateway looks for as the entry file's name. */
  directoryName: string
  manifest: Manifest & { entrypoint: string }
  /** Optional manifest field `files`: what else belongs into the archive. */
  files: string[]
}

/** What stands in the manifest of a folder, and how each problem reads on a terminal. */
export interface CheckedProject {
  project?: PluginProject
  problems: ManifestProblem[]
  lines: string[]
}

const SCRIPT = /\.[cm]?[jt]sx?$/

/** Whether the entry is bundled: JavaScript and TypeScript are, any other program is shipped as it is. */
export const isScript = ({ manifest }: { manifest: { entrypoint: string } }): boolean => SCRIPT.test(manifest.entrypoint)

/** Reads and checks a plugin's folder. Throws a `CliError` when there is no manifest at all. */
export async function checkProject(path: string): Promise<CheckedProject> {
  const directory = resolve(path)
  const directoryName = basename(directory)
  const file = join(directory, 'manifest.json')
  const text = await readManifestText(file)
  const { problems, manifest, json, add } = validateForPublishing(text, { directoryName })
  const files = readFiles(json, add)
  const entrypoint = manifest?.entrypoint
  if (entrypoint !== undefined) await checkFiles(directory, entrypoint, files, add)
  if (manifest && entrypoint !== undefined && !SCRIPT.test(entrypoint)) await checkProgram(directory, manifest.name, entrypoint, add)
  const all = problems()
  const shownFile = relative(process.cwd(), file) || file
  const lines = all.map(({ severity, line, column, message }) => `${shownFile}:${line}:${column}: ${severity}: ${message}`)
  if (!manifest || entrypoint === undefined || all.some(({ severity }) => severity === 'error')) return { problems: all, lines }
  return { project: { directory, directoryName, manifest: { ...manifest, entrypoint }, files }, problems: all, lines }
}

function readFiles(json: unknown, add: AddProblem): string[] {
  const files = typeof json === 'object' && json !== null && 'files' in json ? json.files : undefined
  if (files === undefined) return []
  if (Array.isArray(files) && files.every(file => typeof file === 'string' && file !== '')) return files as string[]
  add('error', ['files'], `must be an array of paths, not ${shown(files)}: write for example "files": ["templates", "data.json"]`)
  return []
}

async function checkFiles(directory: string, entrypoint: string, files: readonly string[], add: AddProblem): Promise<void> {
  const why = (await whyNotInside(directory, entrypoint)) ?? (await whyNoFile(join(directory, entrypoint)))
  if (why !== undefined) add('error', ['entrypoint'], `${JSON.stringify(entrypoint)} ${why}`)
  for (const [index, file] of files.entries()) {
    const wrong = await whyNotInside(directory, file)
    if (wrong !== undefined) add('error', ['files', index], `${JSON.stringify(file)} ${wrong}`)
  }
}

async function whyNotInside(directory: string, path: string): Promise<string | undefined> {
  const inside = relative(directory, resolve(directory, path))
  if (inside === '' || inside.startsWith('..') || resolve(inside) === inside) return "leaves the plugin's folder: name a file inside it"
  const found = await stat(join(directory, inside)).catch(() => undefined)
  return found ? undefined : 'does not exist: create it, or correct the path'
}

const whyNoFile = async (path: string): Promise<string | undefined> =>
  (await stat(path)).isFile() ? undefined : 'is no file: name the file that the program starts with'

/** A program in another language needs a runtime configuration that says how it is started. */
async function checkProgram(directory: string, name: string, entrypoint: string, add: AddProblem): Promise<void> {
  const stem = basename(entrypoint).replace(/(?<=.)\.[^.]*$/, '')
  const advice = `write ${stem}.runtimeconfig.json beside it, with {"command": ["python3", "${basename(entrypoint)}"]}`
  try {
    const { runtimeConfig, file } = await findEntry(directory, name)
    if (runtimeConfig === undefined)
      add(
        'error',
        ['entrypoint'],
        `${JSON.stringify(entrypoint)} is no JavaScript, but the gateway would start ${file}: remove one of them`,
      )
  } catch (error) {
    if (!(error instanceof EntryError)) throw error
    const why = `${JSON.stringify(entrypoint)} is no JavaScript, so it needs a runtime configuration`
    add('error', ['entrypoint'], error.missing ? `${why}: ${advice}` : error.message)
  }
}
