import { collection, type Collection, type Store } from '../../../core/store/collection.js'
import { openCollection } from '../../support/store.js'
import { describeOwners } from './contract/owners.js'
import { describePages } from './contract/pages.js'
import { describeReads } from './contract/reads.js'
import type { Features, Row } from './contract/subject.js'
import { describeWrites } from './contract/writes.js'

const spec = collection.global<Row>({ indexes: [{ fields: { n: 1 } }, { fields: { name: 1 }, unique: true, sparse: true }] })

/** What every engine promises. `open` opens an empty store; `features` is known once `open` has run. */
export const describeContract = (engine: string, open: () => Promise<Store>, features: () => Features): void => {
  describe(`the store's contract on ${engine}`, () => {
    let store: Store
    let rows: Collection<Row>
    let serial = 0
    const fresh = (): string => `contract.rows${String(serial++)}`

    before(async () => {
      store = await open()
    })
    after(() => store.close())
    beforeEach(async () => {
      rows = await openCollection(store, fresh(), spec)
    })

    const subject = {
      get store(): Store {
        return store
      },
      get rows(): Collection<Row> {
        return rows
      },
      fresh,
      needsAll: (test: Mocha.Context): void => {
        if (!features().complete) test.skip()
      },
    }
    describeReads(subject)
    describeWrites(subject)
    describePages(subject)
    describeOwners(subject)
  })
}
