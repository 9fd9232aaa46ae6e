// Bundles the gateway into dist/: one file to load at start instead of hundreds, and a bundle for each worker thread.
import { readFile, rm } from 'node:fs/promises'
import { build, transform } from 'esbuild'

/** Native modules find their binaries beside their own files, so they stay where npm put them. */
const NATIVE = ['@photostructure/sqlite', 'argon2']

/** What is imported when first used is not loaded at start, so it need not be in the bundle. */
const keepLazyImportsOutside = {
  name: 'keep-lazy-imports-outside',
  setup(builder) {
    builder.onResolve({ filter: /^[^./]/ }, ({ kind, path }) => (kind === 'dynamic-import' ? { path, external: true } : undefined))
  },
}

/** The list of worker threads stands in the source; no second one here. */
const listWorkers = async () => {
  const { code } = await transform(await readFile('core/worker.ts', 'utf8'), { loader: 'ts' })
  return (await import(`data:text/javascript,${encodeURIComponent(code)}`)).workers
}

const workers = await listWorkers()
await rm('dist', { recursive: true, force: true })
await build({
  entryPoints: { main: 'core/main.ts', ...Object.fromEntries(Object.entries(workers).map(([name, file]) => [`workers/${name}`, file])) },
  outdir: 'dist',
  chunkNames: 'chunks/[name]-[hash]',
  bundle: true,
  splitting: true,
  format: 'esm',
  platform: 'node',
  target: 'node20.19',
  sourcemap: 'linked',
  external: NATIVE,
  plugins: [keepLazyImportsOutside],
  // Bundled CommonJS packages call require.
  banner: { js: "import { createRequire as createRequireHere } from 'node:module'; const require = createRequireHere(import.meta.url);" },
  logLevel: 'warning',
})
