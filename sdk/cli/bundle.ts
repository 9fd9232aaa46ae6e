import { mkdir, rename, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { BuildOptions } from 'esbuild'
import { CliError, type PluginProject } from './project.js'

/** CommonJS packages inside an ES module have no `require` of their own. */
const REQUIRE_BANNER = "import { createRequire as requireMaker } from 'node:module'; const require = requireMaker(import.meta.url);"

/**
 * Bundles a JavaScript or TypeScript entry with everything it imports, the SDK included, into one ES module that runs
 * where no `node_modules` is: `publish/<directory-name>.mjs`. Returns its text. `prologue` is JavaScript that comes first.
 */
export async function bundle(
  { directory, directoryName, manifest }: PluginProject,
  prologue = '',
): Promise<{ file: string; text: string }> {
  const { build } = await import('esbuild')
  const options = {
    absWorkingDir: directory,
    entryPoints: [manifest.entrypoint],
    bundle: true,
    write: false,
    format: 'esm',
    platform: 'node',
    target: 'node20.19',
    legalComments: 'none',
    logLevel: 'silent',
  } as const satisfies BuildOptions
  const run = async (banner: string): Promise<string> => {
    const result = await build({ ...options, banner: { js: banner } }).catch((error: unknown) => {
      throw new CliError(explain(error))
    })
    return result.outputFiles[0]?.text ?? ''
  }
  const plain = await run(prologue)
  const text = plain.includes('Dynamic require of ') ? await run(REQUIRE_BANNER + prologue) : plain
  const file = join(directory, 'publish', `${directoryName}.mjs`)
  await writeWhole(file, text)
  return { file, text }
}

/** A gateway may watch the folder: it never sees half a file. */
async function writeWhole(file: string, text: string): Promise<void> {
  const unfinished = `${file}.${process.pid}.tmp`
  try {
    await mkdir(dirname(file), { recursive: true })
    await writeFile(unfinished, text)
    await rename(unfinished, file)
  } catch (error) {
    await rm(unfinished, { force: true }).catch(() => undefined)
    throw new CliError(`The bundle cannot be written to ${file}: ${(error as Error).message}`)
  }
}

interface BuildMessage {
  text: string
  location: { file: string; line: number; column: number } | null
}

function explain(error: unknown): string {
  const messages = (error as { errors?: BuildMessage[] }).errors
  if (!messages) return `The bundle could not be built: ${String(error)}`
  const lines = messages.map(({ text, location }) => {
    const where = location ? `${location.file}:${location.line}:${location.column + 1}: ` : ''
    const hint = /Could not resolve "([^./][^"]*)"/.test(text) ? ' (run npm install first)' : ''
    return `${where}error: ${text}${hint}`
  })
  return lines.join('\n')
}
