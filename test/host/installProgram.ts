// Installs two archives in turn for ever, to be killed: installProgram.ts ROOT ARCHIVE_A ARCHIVE_B. Says what it has done.
import { copyFile } from 'node:fs/promises'
import { join } from 'node:path'
import { digestOf } from '../../core/host/archive.js'
import { Installs } from '../../core/host/installs.js'

const [, , root = '', ...archives] = process.argv
const installs = new Installs(join(root, 'installs'))
await installs.cleanUp()
const digests = await Promise.all(archives.map(archive => digestOf(archive)))
for (let count = 0; ; count++) {
  const turn = count % archives.length
  const upload = join(root, `upload-${String(count)}`)
  await copyFile(archives[turn] ?? '', upload)
  await installs.install('some', upload, { version: `${String(count)}.0.0`, digest: digests[turn] ?? '', installedAt: '' })
  process.stdout.write(`${String(count)}\n`)
}
