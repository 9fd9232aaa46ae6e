// Builds the examples in place: each plugin's folder can be copied into a plugin directory as it is, and the node is one
// file with everything in it.
import { execFile } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { chmod } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { build } from 'esbuild'

const root = fileURLToPath(new URL('..', import.meta.url))
const examples = join(root, 'examples/plugins')
const service = join(root, 'sdk/bin/service.js')

const folders = readdirSync(examples).filter(name => existsSync(join(examples, name, 'manifest.json')))

const buildNode = async () => {
  const outfile = join(root, 'examples/node/dist/node.mjs')
  await build({
    entryPoints: [join(root, 'examples/node/src/main.ts')],
    outfile,
    bundle: true,
    format: 'esm',
    platform: 'node',
    target: 'node20.19',
    legalComments: 'none',
    // Bundled CommonJS packages call require.
    banner: {
      js: "#!/usr/bin/env node\nimport { createRequire as createRequireHere } from 'node:module'; const require = createRequireHere(import.meta.url);",
    },
    logLevel: 'warning',
  })
  await chmod(outfile, 0o755)
}

await Promise.all([
  buildNode(),
  ...folders.map(name => promisify(execFile)(process.execPath, [service, 'dev', 'build', join(examples, name), '--no-archive'])),
])
