import { closeSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { StartError } from '../../errors.js'
import { openDatabase, type Database } from './driver.js'
import { isBusy } from './errors.js'

/**
 * Holds a store for this process alone, until the returned function is called or the process ends in any way: the
 * lock is the operating system's, on a file of its own. Throws an error that names the holder when there is one.
 */
export const lockStore = (file: string): (() => void) => {
  const lockFile = `${file}.lock`
  const holderFile = `${file}.holder`
  closeSync(openSync(lockFile, 'a', 0o600))
  const db = openDatabase(lockFile, 0)
  try {
    db.exec('BEGIN EXCLUSIVE')
  } catch (error) {
    db.close()
    if (!isBusy(error)) throw error
    throw new StartError(`The store ${file} is in use by ${readHolder(holderFile)}: stop it first, or use another data directory`, {
      cause: error,
    })
  }
  writeFileSync(holderFile, `process ${String(process.pid)}, since ${new Date().toISOString()}`, { mode: 0o600 })
  return () => {
    release(db, holderFile)
  }
}

const release = (db: Database, holderFile: string): void => {
  rmSync(holderFile, { force: true })
  db.close()
}

const readHolder = (holderFile: string): string => {
  try {
    return readFileSync(holderFile, 'utf8')
  } catch {
    // The holder is only just starting or stopping.
    return 'another process'
  }
}
