import { existsSync } from 'node:fs'
import { Worker, type WorkerOptions } from 'node:worker_threads'

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

/** Where a worker's program is: its source when this file is source, else its bundle, also seen from a chunk below the output directory. */
export const workerFile = (name: WorkerName): URL => {
  if (fromSource) return new URL(`../${workers[name]}`, import.meta.url)
  const places = ['./', '../'].map(up => new URL(`${up}workers/${name}.js`, import.meta.url))
  const found = places.find(place => existsSync(place))
  if (!found)
    throw new Error(`The worker ${name} is missing from the build: expected ${places.map(({ pathname }) => pathname).join(' or ')}`)
  return found
}

/** Starts a worker thread of the program. From source it runs under tsx, whatever the main thread was started with. */
export const startWorker = (name: WorkerName, options: WorkerOptions = {}): Worker => {
  const file = workerFile(name)
  if (!fromSource) return new Worker(file, options)
  return new Worker(new URL('runSource.mjs', import.meta.url), { ...options, argv: [file.href], execArgv: [] })
}
