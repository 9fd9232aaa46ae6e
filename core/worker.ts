import { existsSync, mkdirSync, renameSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import { Worker, type WorkerOptions } from 'node:worker_threads'
import type * as Esbuild from 'esbuild'

/**
 * The program's worker threads: name to source file, relative to the repository's root. The build makes one bundle
 * of each, `workers/<name>.js` in its output directory.
 * @public
 */
export const workers = {
  sqliteWorker: 'core/store/sqlite/worker.ts',
  documentParser: 'plugins/documents/parseWorker.ts',
  archiveUnpacker: 'core/host/unpackWorker.ts',
  vectorSearch: 'plugins/memory/vectorWorker.ts',
  textSearch: 'core/textSearchWorker.ts',
} as const

export type WorkerName = keyof typeof workers

const fromSource = import.meta.url.endsWith('.ts')

const bundled = new Map<WorkerName, URL>()

/**
 * From source, a worker's program is bundled by its first start in this process: a thread that translates its sources
 * itself takes many times longer to start, and not every version of Node hands `--import tsx` on to it.
 */
const bundleFromSource = (name: WorkerName): URL => {
  const known = bundled.get(name)
  if (known) return known
  const { buildSync } = createRequire(import.meta.url)('esbuild') as typeof Esbuild
  const entryPoints = [fileURLToPath(new URL(`../${workers[name]}`, import.meta.url))]
  const format = { bundle: true, platform: 'node', format: 'esm', packages: 'external', write: false } as const
  const [program] = buildSync({ entryPoints, ...format }).outputFiles
  // Below node_modules, where the packages are found from.
  const directory = new URL('../node_modules/.cache/agent-gateway/workers/', import.meta.url)
  mkdirSync(directory, { recursive: true })
  const file = new URL(`${name}.mjs`, directory)
  const own = new URL(`${name}-${String(process.pid)}.new`, directory)
  writeFileSync(own, program?.contents ?? '')
  renameSync(own, file)
  bundled.set(name, file)
  return file
}

/** Where a worker's program is, also seen from a chunk below the output directory. */
export const workerFile = (name: WorkerName): URL => {
  if (fromSource) return bundleFromSource(name)
  const places = ['./', '../'].map(up => new URL(`${up}workers/${name}.js`, import.meta.url))
  const found = places.find(place => existsSync(place))
  if (!found)
    throw new Error(`The worker ${name} is missing from the build: expected ${places.map(({ pathname }) => pathname).join(' or ')}`)
  return found
}

/** Options of every thread. A bundle that was made from source does without the loader that its process may have been started with. */
export const threadOptions: { execArgv?: string[] } = fromSource ? { execArgv: [] } : {}

/** Starts a worker thread of the program. */
export const startWorker = (name: WorkerName, options: WorkerOptions = {}): Worker =>
  new Worker(workerFile(name), { ...options, ...threadOptions })
