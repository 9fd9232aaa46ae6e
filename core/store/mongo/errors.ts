import { serviceUnavailable } from '../../errors.js'
import { DuplicateKey } from '../collection.js'
import type { BuiltIndex } from '../indexes.js'

const duplicateKeyCode = 11000
const unreachable = [
  'MongoServerSelectionError',
  'MongoNetworkError',
  'MongoNetworkTimeoutError',
  'MongoNotConnectedError',
  'MongoTopologyClosedError',
]

interface DriverError {
  name?: string
  code?: unknown
  message?: string
  keyPattern?: Record<string, unknown>
}

export const isDuplicateKey = (error: unknown): boolean => (error as DriverError | undefined)?.code === duplicateKeyCode

/** FerretDB on SQLite tells its clients that its database is locked when many write at once. */
export const isBusy = (error: unknown): boolean => (error as DriverError | undefined)?.message?.includes('(SQLITE_BUSY)') ?? false

/** What a caller is told of a driver's error: a `DuplicateKey`, a server out of reach, or the error itself. */
export const explain = (error: unknown, collection?: string, indexes: (BuiltIndex & { name: string })[] = []): unknown => {
  if (collection !== undefined && isDuplicateKey(error)) return duplicate(error as DriverError, collection, indexes)
  if (!unreachable.includes((error as DriverError).name ?? '')) return error
  return Object.assign(serviceUnavailable('The store cannot be reached: check the MongoDB server'), { cause: error })
}

const duplicate = (
  { keyPattern, message = '', ...error }: DriverError,
  collection: string,
  indexes: (BuiltIndex & { name: string })[],
): DuplicateKey => {
  const pattern = keyPattern && Object.keys(keyPattern).join()
  const index = indexes.find(
    ({ name, fields, unique }) => unique && (message.includes(`index: ${name} `) || pattern === Object.keys(fields).join()),
  )
  if (index || pattern === '_id' || message.includes('index: _id_')) return new DuplicateKey(collection, index?.declared ?? ['id'], error)
  // The server does not say which: a made-up id is hardly ever the one.
  return new DuplicateKey(collection, indexes.find(({ unique }) => unique)?.declared ?? ['id'], error)
}
