// Bundles the gateway into dist/: one file to load at start instead of hundreds, and a bundle for each worker thread.
import { readFile, rm } from 'node:fs/promises'
import { resolve } from 'node:path'
import { build, transform } from 'esbuild'

/** Native modules find their binaries beside their own files, so they stay where npm put them. */
const NATIVE = ['@photostructure/sqlite', 'argon2']

/** Packages that give Node their CommonJS form first, which cannot be bundled piece by piece. */
const ES_MODULES = { mingo: 'node_modules/mingo/esm/index.js' }

/** Imported when first used, yet small and used early or often: one file of the bundle loads faster than a package's many. */
const BUNDLED_LAZY = ['mingo', 'minisearch', 'chokidar', 'jose']

/** What else is imported when first used stays where npm put it. */
const keepLazyImportsOutside = {
  name: 'keep-lazy-imports-outside',
  setup(builder) {
    builder.onResolve({ filter: /^[^./]/ }, ({ kind, path }) => {
      if (Object.hasOwn(ES_MODULES, path)) return { path: resolve(ES_MODULES[path]) }
      const isBundled = BUNDLED_LAZY.some(name => path === name || path.startsWith(`${name}/`))
      return kind === 'dynamic-import' && !isBundled ? { path, external: true } : undefined
    })
  },
}

/** The schema library brings its messages in 50 languages, and cannot be shaken; ours are in English. */
const englishOnly = {
  name: 'english-only',
  setup(builder) {
    builder.onLoad({ filter: /zod[/\\]v4[/\\]locales[/\\]index\.js$/ }, () => ({ contents: "export { default as en } from './en.js'" }))
  },
}

/** The rate limiter's index loads a class for each of twenty databases; the ones that are used stand here, those of several gateways when used. */
const limitersInUse = {
  name: 'limiters-in-use',
  setup(builder) {
    builder.onLoad({ filter: /rate-limiter-flexible[/\\]index\.js$/ }, () => ({
      contents: [
        ...['RateLimiterMemory', 'RateLimiterRes'].map(name => `exports.${name} = require('./lib/${name}')`),
        "Object.defineProperty(exports, 'RateLimiterRedis', { get: () => require('./lib/RateLimiterRedis') })",
      ].join('\n'),
    }))
  },
}

/** Large tables are parsed as JSON, which is many times faster than compiling them as a program. */
const tablesAsJson = {
  name: 'tables-as-json',
  setup(builder) {
    builder.onLoad({ filter: /mime-db[/\\]db\.json$/ }, async ({ path }) => {
      const table = JSON.stringify(JSON.parse(await readFile(path, 'utf8')))
      return { contents: `module.exports = JSON.parse(${JSON.stringify(table)})`, loader: 'js' }
    })
  },
}

/** Two versions of the table of media types are asked for by one function that is the same in both: the newer one serves both. */
const oneTableOfTypes = {
  name: 'one-table-of-types',
  setup(builder) {
    builder.onResolve({ filter: /^mime-types$/ }, () => ({ path: resolve('node_modules/mime-types/index.js') }))
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
  plugins: [oneTableOfTypes, keepLazyImportsOutside, englishOnly, tablesAsJson, limitersInUse],
  // Smaller files are read and compiled faster; names stay, for stack traces.
  minifyWhitespace: true,
  minifySyntax: true,
  // Bundled CommonJS packages call require.
  banner: { js: "import { createRequire as createRequireHere } from 'node:module'; const require = createRequireHere(import.meta.url);" },
  logLevel: 'warning',
})
