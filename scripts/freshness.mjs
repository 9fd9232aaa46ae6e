// What is built from what, and whether it was: by the content of the sources and of what came out of them.
import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const stampOf = name => join(root, 'node_modules/.cache/agent-gateway', `${name}.built`)
const BUILT = /(?:^|\/)(?:node_modules|dist|publish|test)(?:\/|$)/

/** In the order in which they are built. */
export const targets = [
  { name: 'sdk', script: 'sdk/build.mjs', sources: ['sdk', 'node_modules/esbuild/package.json'], outputs: ['sdk/dist'] },
  {
    name: 'gateway',
    script: 'scripts/build.mjs',
    sources: ['core', 'plugins', 'sdk', 'scripts/build.mjs', 'package-lock.json'],
    outputs: ['dist'],
  },
  {
    name: 'examples',
    script: 'scripts/buildExamples.mjs',
    sources: ['examples/plugins', 'sdk', 'scripts/buildExamples.mjs'],
    outputs: await publishFolders(),
  },
]

/** Whether the outputs are there, and are what the sources as they are now gave. */
export async function isFresh(target) {
  if (!target.outputs.every(output => existsSync(join(root, output)))) return false
  const stamp = await readFile(stampOf(target.name), 'utf8').catch(() => '')
  return stamp === (await fingerprint(target))
}

/** Remembers that the target was built from its sources as they are now. */
export async function recordBuilt(target) {
  await mkdir(dirname(stampOf(target.name)), { recursive: true })
  await writeFile(stampOf(target.name), await fingerprint(target))
}

async function fingerprint({ sources, outputs }) {
  const hash = createHash('sha256')
  const add = async (path, isSource) => {
    if (isSource && BUILT.test(relative(root, path)) && !sources.includes(relative(root, path))) return
    const entries = await readdir(path, { withFileTypes: true }).catch(() => undefined)
    if (entries) for (const { name } of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) await add(join(path, name), isSource)
    else
      hash
        .update(`${relative(root, path)}\0`)
        .update(await readFile(path))
        .update('\0')
  }
  for (const source of sources) await add(join(root, source), true)
  for (const output of outputs) await add(join(root, output), false)
  return hash.digest('hex')
}

/** Examples in other languages than JavaScript have nothing that is built. */
async function publishFolders() {
  const folder = join(root, 'examples/plugins')
  const names = await readdir(folder)
  return names.filter(name => existsSync(join(folder, name, 'src'))).map(name => `examples/plugins/${name}/publish`)
}
