import { openDatabase, type Database } from './driver.js'

const busyTimeoutMs = 5000
const cacheKiB = 8192

/** Opens a connection to a store's file as every thread does: write-ahead log, each commit synced to disk. */
export const connect = (file: string): Database => {
  const db = openDatabase(file, busyTimeoutMs)
  try {
    db.exec(`PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA fullfsync=ON; PRAGMA cache_size=-${String(cacheKiB)}`)
    return db
  } catch (error) {
    db.close()
    throw error
  }
}
