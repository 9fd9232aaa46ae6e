import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import { workers } from '../../core/worker.js'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))

/**
 * These files of the bench as the build would make them, in a directory that has each as `NAME.js`: run from source, every function made in a hot path would be given its name,
 * which costs more than much of what is measured.
 */
export const bundlePrograms = async (...files: string[]): Promise<{ directory: string; remove: () => Promise<void> }> => {
  const cache = join(ROOT, 'node_modules/.cache')
  await mkdir(cache, { recursive: true })
  const directory = await mkdtemp(join(cache, 'agent-gateway-bench-'))
  const programs = files.map(file => [basename(file, '.ts'), fileURLToPath(new URL(file, import.meta.url))] as const)
  await build({
    entryPoints: { ...Object.fromEntries(programs), 'workers/sqliteWorker': join(ROOT, workers.sqliteWorker) },
    outdir: directory,
    bundle: true,
    splitting: true,
    packages: 'external',
    format: 'esm',
    platform: 'node',
    target: 'node20.19',
    logLevel: 'warning',
  })
  return { directory, remove: () => rm(directory, { recursive: true, force: true }) }
}
