import { serviceUnavailable } from '../../errors.js'
import { DuplicateKey } from '../collection.js'
import type { Table } from './table.js'

/** SQLite's result codes that mean something of their own: https://sqlite.org/rescode.html */
const codes = { busy: 5, ioError: 10, damaged: 11, full: 13, notADatabase: 26 }
const uniqueCodes = [1555, 2067]

/** @photostructure/sqlite leaves the code out of what a statement throws while it reads rows: https://sqlite.org/c3ref/errcode.html */
const codesByText: Record<string, number> = {
  'database is locked': codes.busy,
  'disk I/O error': codes.ioError,
  'database disk image is malformed': codes.damaged,
  'database or disk is full': codes.full,
  'file is not a database': codes.notADatabase,
}

const codeOf = (error: unknown): number => {
  const { code, errcode, message = '' } = (error ?? {}) as { code?: unknown; errcode?: unknown; message?: string }
  if (typeof errcode === 'number') return errcode
  return code === 'ERR_SQLITE_ERROR' ? (codesByText[message] ?? 0) : 0
}

export const isUniqueViolation = (error: unknown): boolean => uniqueCodes.includes(codeOf(error))
export const isBusy = (error: unknown): boolean => (codeOf(error) & 0xff) === codes.busy

/** What a caller is told of a failed statement: SQLite's own error as the cause of one that says what to do. */
export const explain = (error: unknown, table?: Table): unknown => {
  if (table && isUniqueViolation(error)) return duplicate(error as Error, table)
  const message = messageFor(codeOf(error) & 0xff)
  return message ? Object.assign(serviceUnavailable(message), { cause: error }) : error
}

const messageFor = (code: number): string | undefined => {
  if (code === codes.full) return 'The store cannot write: its disk or its size limit is full. Free space and try again'
  if (code === codes.ioError) return 'The store cannot read or write its file: check the disk that holds the data directory'
  if (code === codes.damaged || code === codes.notADatabase)
    return 'The store file is damaged: stop the gateway and restore the data directory from a backup'
  return code === codes.busy ? 'The store file is held by another program: stop it and try again' : undefined
}

const duplicate = (error: Error, table: Table): DuplicateKey => {
  const index = table.indexes.find(({ name }) => error.message.includes(`index '${name}'`))
  return new DuplicateKey(table.name, index?.declared ?? ['id'], error)
}
