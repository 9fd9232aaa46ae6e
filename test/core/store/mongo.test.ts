import { randomBytes } from 'node:crypto'
import { MongoClient } from 'mongodb'
import { openMongoStore } from '../../../core/store/mongo.js'
import type { Features } from './contract/subject.js'
import { describeContract } from './contract.js'

const uri = process.env.MONGODB_URI
const database = `agent-gateway-test-${randomBytes(4).toString('hex')}`

/** FerretDB speaks the protocol, but not all of the language. */
const probe = async (client: MongoClient): Promise<Features> => {
  const info = await client.db('admin').command({ buildInfo: 1 })
  return { complete: !('ferretdbVersion' in info) }
}

if (uri === undefined) describe("the store's contract on MongoDB", () => it('holds (skipped: MONGODB_URI is not set)'))
else {
  let features: Features = { complete: false }
  after(async () => {
    const client = await MongoClient.connect(uri)
    await client.db(database).dropDatabase()
    await client.close()
  })
  describeContract(
    'MongoDB',
    async () => {
      const client = await MongoClient.connect(uri)
      features = await probe(client)
      await client.close()
      return openMongoStore({ uri, database })
    },
    () => features,
  )
}
