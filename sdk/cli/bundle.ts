import { mkdir, rename, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { BuildOptions } from 'esbuild'
import { CliError, type PluginProject } from './project.js'

/** CommonJS packages inside an ES module have no `require` of their own. */
const REQUIRE_BANNER = "import { createRequire as requireMaker } from 'node:module'; const require = requireMaker(import.meta.url);"
/** esbuild says it for ES modules, but behind a prologue it would not count. */
const STRICT_BANNER = '"use strict";'

/** A bundled program. */
export interface Bundle {
  file: string
  text: string
  /** `.cjs`, or `.mjs` where the program needs what only an ES module has. */
  ending: '.cjs' | '.mjs'
}

type Format = Pick<Bundle, 'text' | 'ending'>

/**
 * Bundles a JavaScript or TypeScript entry with everything it imports, the SDK included, into one file that runs where
 * no `node_modules` is: `publish/<directory-name>.cjs`. As CommonJS it is up a tenth sooner than as an ES module, whose
 * loader Node has to bring up first; a program that awaits at its top level, or looks at `import.meta`, becomes the ES
 * module `publish/<directory-name>.mjs`. `prologue` is JavaScript that comes first.
 */
export async function bundle({ directory, directoryName, manifest }: PluginProject, prologue = ''): Promise<Bundle> {
  const options = {
    absWorkingDir: directory,
    entryPoints: [manifest.entrypoint],
    bundle: true,
    write: false,
    platform: 'node',
    target: 'node20.19',
    legalComments: 'none',
    logLevel: 'silent',
  } as const satisfies BuildOptions
  const { text, ending } = (await asCommonJs(options, prologue)) ?? (await asModule(options, prologue))
  const fileOf = (other: Bundle['ending']): string => join(directory, 'publish', `${directoryName}${other}`)
  await writeWhole(fileOf(ending), text)
  // The other one, of an earlier build, would come first or stay behind.
  await rm(fileOf(ending === '.cjs' ? '.mjs' : '.cjs'), { force: true })
  return { file: fileOf(ending), text, ending }
}

/** `undefined`: the program needs what only an ES module has, or cannot be built at all. */
async function asCommonJs(options: BuildOptions, prologue: string): Promise<Format | undefined> {
  const { build } = await import('esbuild')
  const banner = prologue === '' ? {} : { js: STRICT_BANNER + prologue }
  // Of what packages do esbuild gives no warnings: only as an error is it told of an `import.meta` in them too.
  const logOverride = { 'empty-import-meta': 'error' } as const
  const result = await build({ ...options, format: 'cjs', banner, logOverride }).catch(() => undefined)
  if (!result) return undefined
  return { text: result.outputFiles?.[0]?.text ?? '', ending: '.cjs' }
}

async function asModule(options: BuildOptions, prologue: string): Promise<Format> {
  const { build } = await import('esbuild')
  const run = async (banner: string): Promise<string> => {
    const result = await build({ ...options, format: 'esm', banner: { js: banner } }).catch((error: unknown) => {
      throw new CliError(explain(error))
    })
    return result.outputFiles?.[0]?.text ?? ''
  }
  const plain = await run(prologue)
  const text = plain.includes('Dynamic require of ') ? await run(REQUIRE_BANNER + prologue) : plain
  return { text, ending: '.mjs' }
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
