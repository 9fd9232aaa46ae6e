// Builds what is not built from the sources as they are: tests never run against something old.
import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { isFresh, recordBuilt, targets } from './freshness.mjs'

const root = fileURLToPath(new URL('..', import.meta.url))

for (const target of targets) {
  if (await isFresh(target)) continue
  console.log(`building: ${target.name}`)
  execFileSync(process.execPath, [target.script], { cwd: root, stdio: 'inherit' })
  await recordBuilt(target)
}
