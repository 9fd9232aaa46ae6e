import { readFile, stat } from 'node:fs/promises'
import { basename, join, relative, resolve } from 'node:path'
import type { Manifest } from '../manifest.js'
import { validateForPublishing, type ManifestProblem } from './publishing.js'

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

/** Reads and checks a plugin's folder. Throws a `CliError` when there is no manifest at all. */
export async function checkProject(path: string): Promise<CheckedProject> {
  const directory = resolve(path)
  const directoryName = basename(directory)
  const file = join(directory, 'manifest.json')
  const text = await readFile(file, 'utf8').catch(() => {
    throw new CliError(
      `${file} cannot be read. Run this in a plugin's folder, name the folder, or make one: service dev new <name> --kind channel`,
    )
  })
  const { problems, manifest } = validateForPublishing(text, { directoryName })
  const all = [...problems]
  const entrypoint = manifest?.entrypoint
  const files = manifest ? readFiles(text) : []
  for (const named of entrypoint === undefined ? [] : [entrypoint, ...files]) {
    const why = await whyNotInside(directory, named)
    if (why !== undefined) all.push({ severity: 'error', ...placeOfText(text, named), message: `${JSON.stringify(named)} ${why}` })
  }
  const shownFile = relative(process.cwd(), file) || file
  const lines = all.map(({ severity, line, column, message }) => `${shownFile}:${line}:${column}: ${severity}: ${message}`)
  if (!manifest || entrypoint === undefined || all.some(({ severity }) => severity === 'error')) return { problems: all, lines }
  return { project: { directory, directoryName, manifest: { ...manifest, entrypoint }, files }, problems: all, lines }
}

function readFiles(text: string): string[] {
  const { files } = JSON.parse(text.replace(/^\ufeff/, '')) as { files?: unknown }
  if (files === undefined) return []
  if (Array.isArray(files) && files.every(file => typeof file === 'string' && file !== '')) return files as string[]
  throw new CliError('manifest.json: "files" must be an array of paths, for example "files": ["templates", "data.json"]')
}

async function whyNotInside(directory: string, path: string): Promise<string | undefined> {
  const inside = relative(directory, resolve(directory, path))
  if (inside === '' || inside.startsWith('..') || resolve(inside) === inside) return "leaves the plugin's folder: name a file inside it"
  const found = await stat(join(directory, inside)).catch(() => undefined)
  return found ? undefined : 'does not exist: create it, or correct the path'
}

function placeOfText(text: string, value: string): { line: number; column: number } {
  const before = text.slice(0, Math.max(0, text.indexOf(JSON.stringify(value))))
  return { line: before.split('\n').length, column: before.length - before.lastIndexOf('\n') }
}
