import type { Readable } from 'node:stream'
import * as yauzl from 'yauzl'

/** The files of an archive, in order. Each stream must be read before the next is asked for. */
export async function* archivedFiles(path: string): AsyncGenerator<{ name: string; stream: Readable }> {
  const zip = await new Promise<yauzl.ZipFile>((resolve, reject) => {
    yauzl.open(path, { lazyEntries: true, autoClose: false }, (error, opened) => (error ? reject(error) : resolve(opened)))
  })
  try {
    for (let count = 0; count < zip.entryCount; count++) {
      const entry = await new Promise<yauzl.Entry>((resolve, reject) => {
        zip.once('entry', resolve).once('error', reject)
        zip.readEntry()
      })
      const stream = await new Promise<Readable>((resolve, reject) => {
        zip.openReadStream(entry, (error, opened) => (error ? reject(error) : resolve(opened)))
      })
      yield { name: entry.fileName, stream }
    }
  } finally {
    zip.close()
  }
}
