import { createRequire } from 'node:module'

/** The part of `node:sqlite` that the store uses; @photostructure/sqlite is the same API for Node before 22.13. */
export interface Statement {
  get(...values: SqlValue[]): Record<string, unknown> | undefined
  all(...values: SqlValue[]): Record<string, unknown>[]
  iterate(...values: SqlValue[]): IterableIterator<Record<string, unknown>>
  run(...values: SqlValue[]): { changes: number | bigint }
}

export interface Database {
  readonly isTransaction: boolean
  exec(sql: string): void
  prepare(sql: string): Statement
  close(): void
}

export type SqlValue = string | number | null

interface Driver {
  DatabaseSync: new (file: string, options: { timeout: number }) => Database
  StatementSync: { prototype: object }
}

let loaded: Driver | undefined

const load = (): Driver => {
  const builtin = process.getBuiltinModule('node:sqlite' as 'node:fs') as unknown as Driver | undefined
  if (builtin && 'iterate' in builtin.StatementSync.prototype) return builtin
  return createRequire(import.meta.url)('@photostructure/sqlite') as Driver
}

/** Opens a database file. A statement that meets another connection's lock waits for `busyTimeoutMs`, then fails. */
export const openDatabase = (file: string, busyTimeoutMs: number): Database => {
  loaded ??= load()
  return new loaded.DatabaseSync(file, { timeout: busyTimeoutMs })
}
