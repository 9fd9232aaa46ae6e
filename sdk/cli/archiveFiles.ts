import { readdir, realpath, stat } from 'node:fs/promises'
import { dirname, join, relative, sep } from 'node:path'
import { findEntry } from '../entry.js'
import { MAX_ARCHIVE_BYTES, MAX_ARCHIVE_FILES } from '../pluginFolder.js'
import { CliError, type PluginProject } from './project.js'

/**
 * The files that go into an archive beside the manifest and a bundle, as paths in it: what `files` names, and of a
 * program in another language the program. Throws a `CliError` for what no gateway would take, and for links that lead
 * out of the folder: they would carry along what nobody named.
 */
export async function archiveFiles(project: PluginProject, isBundled: boolean): Promise<string[]> {
  const { directory, files } = project
  const root = await realpath(directory)
  const found = new Set<string>()
  let bytes = 0
  const insideOf = async (path: string): Promise<string> => {
    const real = await realpath(join(directory, path))
    if (real.startsWith(root + sep)) return real
    throw new CliError(`${path} is a link to ${real}, not inside of the plugin's folder: copy what it is, or leave it out of "files"`)
  }
  const add = async (path: string): Promise<void> => {
    const real = await insideOf(path)
    const stats = await stat(real)
    if (!stats.isFile()) throw new CliError(`${path} is neither a file nor a folder: leave it out of "files"`)
    bytes += stats.size
    found.add(relative(directory, join(directory, path)).split(sep).join('/'))
    if (found.size > MAX_ARCHIVE_FILES || bytes > MAX_ARCHIVE_BYTES)
      throw new CliError(
        `There is too much for an archive: a gateway takes ${MAX_ARCHIVE_FILES} files and ${MAX_ARCHIVE_BYTES / 1024 / 1024} MiB. ${path} is one too many: name less in "files"`,
      )
  }
  for (const path of [...(isBundled ? [] : await programFiles(project)), ...files]) {
    const whole = join(directory, path)
    if (!(await stat(whole)).isDirectory()) {
      await add(path)
      continue
    }
    await insideOf(path)
    // Links inside a folder are left out, as a gateway leaves them out.
    for (const entry of await readdir(whole, { recursive: true, withFileTypes: true }))
      if (entry.isFile()) await add(relative(directory, join(entry.parentPath, entry.name)))
  }
  return [...found]
}

/** Of a program in another language: the entry, its runtime configuration, and what its command names beside it. */
async function programFiles({ directory, manifest }: PluginProject): Promise<string[]> {
  const entry = await findEntry(directory, manifest.name)
  const beside = entry.command.map(word => join(dirname(entry.file), word))
  const named = await Promise.all(beside.map(async file => ((await isFile(join(directory, file))) ? [file] : [])))
  return [...(entry.runtimeConfig === undefined ? [] : [entry.runtimeConfig]), entry.file, manifest.entrypoint, ...named.flat()]
}

const isFile = async (path: string): Promise<boolean> => (await stat(path).catch(() => undefined))?.isFile() ?? false
