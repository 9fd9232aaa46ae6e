// Builds dist/: JavaScript by esbuild, declarations by TypeScript where it is installed (it is in the repository).
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdir, rm } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'

const here = fileURLToPath(new URL('.', import.meta.url))

async function buildJavaScript() {
  const { metafile } = await build({
    metafile: true,
    absWorkingDir: here,
    entryPoints: ['index.ts', 'protocol.ts', 'rpc.ts', 'manifest.ts', 'testing.ts', 'node/index.ts', 'cli/main.ts'],
    outdir: 'dist',
    outbase: '.',
    chunkNames: 'chunks/[name]-[hash]',
    bundle: true,
    splitting: true,
    packages: 'external',
    format: 'esm',
    platform: 'node',
    target: 'node20.19',
    logLevel: 'warning',
  })
  await removeOldChunks(new Set(Object.keys(metafile.outputs)))
}

// Chunks are named after their content. Old ones go once the new ones stand, so that nobody finds dist/ half empty.
async function removeOldChunks(current) {
  const chunks = await readdir(join(here, 'dist/chunks')).catch(() => [])
  await Promise.all(chunks.filter(name => !current.has(`dist/chunks/${name}`)).map(name => rm(join(here, 'dist/chunks', name))))
}

async function buildDeclarations() {
  let compiler
  try {
    compiler = createRequire(import.meta.url).resolve('typescript/bin/tsc')
  } catch {
    console.warn('@agent-gateway/sdk: TypeScript is not installed, so dist/ has no declarations')
    return
  }
  const child = spawn(process.execPath, [compiler, '-p', here], { stdio: 'inherit' })
  const [code] = await once(child, 'exit')
  if (code !== 0) throw new Error('The declarations could not be built')
}

await Promise.all([buildJavaScript(), buildDeclarations()])
