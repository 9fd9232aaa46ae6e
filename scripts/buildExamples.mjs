// Builds the example plugins in place, so that each folder can be copied into a plugin directory as it is.
import { execFile } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const root = fileURLToPath(new URL('..', import.meta.url))
const examples = join(root, 'examples/plugins')
const service = join(root, 'sdk/bin/service.js')

const folders = readdirSync(examples).filter(name => existsSync(join(examples, name, 'manifest.json')))
await Promise.all(
  folders.map(name => promisify(execFile)(process.execPath, [service, 'dev', 'build', join(examples, name), '--no-archive'])),
)
