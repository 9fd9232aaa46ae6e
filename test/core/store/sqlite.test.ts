import { join } from 'node:path'
import { openSqliteStore } from '../../../core/store/sqlite.js'
import { temporaryDirectory } from '../../support/store.js'
import { describeContract } from './contract.js'

let directory: Awaited<ReturnType<typeof temporaryDirectory>> | undefined
after(() => directory?.remove())

describeContract(
  'SQLite',
  async () => {
    directory = await temporaryDirectory()
    return openSqliteStore({ file: join(directory.path, 'store.db') })
  },
  () => ({ complete: true }),
)
