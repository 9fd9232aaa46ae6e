import type { BuiltIndex } from '../indexes.js'
import type { Database } from './driver.js'
import { isUniqueViolation } from './errors.js'
import { arrayKey, keyExpression, nullKey, objectKey } from './keys.js'
import { createTable, type Table, type TableDefinition } from './table.js'

/** Goes up when the keys or tables are built another way: every index is then rebuilt. */
const schemaVersion = 1

const quote = (name: string): string => `"${name.replaceAll('"', '""')}"`

/**
 * Makes the tables and indexes of the collections exist and adds to the definitions what is known of their data.
 * Where nothing changed since the last time this is one read.
 */
export const applySchema = (db: Database, definitions: TableDefinition[]): void => {
  const known = readMeta(db)
  const stale = definitions.filter(definition => known.get(definition.name)?.fingerprint !== fingerprint(definition))
  for (const definition of definitions) definition.irregular = known.get(definition.name)?.irregular ?? []
  if (stale.length === 0) return
  db.exec('BEGIN IMMEDIATE')
  try {
    db.exec('CREATE TABLE IF NOT EXISTS "meta" (name TEXT PRIMARY KEY, fingerprint TEXT NOT NULL, irregular TEXT NOT NULL) WITHOUT ROWID')
    for (const definition of stale) applyTable(db, definition)
    db.exec('COMMIT')
  } catch (error) {
    if (db.isTransaction) db.exec('ROLLBACK')
    throw error
  }
}

/** The store's collections that exist, declared or not. */
export const readMeta = (db: Database): Map<string, { fingerprint: string; irregular: string[] }> => {
  if (!db.prepare(`SELECT 1 FROM sqlite_master WHERE type='table' AND name='meta'`).get()) return new Map()
  const rows = db.prepare('SELECT name,fingerprint,irregular FROM "meta"').all() as {
    name: string
    fingerprint: string
    irregular: string
  }[]
  return new Map(rows.map(row => [row.name, { fingerprint: row.fingerprint, irregular: JSON.parse(row.irregular) as string[] }]))
}

const fingerprint = ({ indexes }: TableDefinition): string => JSON.stringify([schemaVersion, indexes])

const applyTable = (db: Database, definition: TableDefinition): void => {
  const table = createTable(definition)
  db.exec(`CREATE TABLE IF NOT EXISTS ${table.sql} (id TEXT PRIMARY KEY NOT NULL, doc TEXT NOT NULL)`)
  const existing = db.prepare(`SELECT name FROM sqlite_master WHERE type='index' AND tbl_name=? AND sql IS NOT NULL`).all(`c:${table.name}`)
  for (const { name } of existing) db.exec(`DROP INDEX ${quote(name as string)}`)
  for (const index of table.indexes) createIndex(db, table, index)
  definition.irregular = [...table.fields].filter(field => holdsIrregular(db, table, field))
  db.prepare('INSERT OR REPLACE INTO "meta" VALUES (?,?,?)').run(table.name, fingerprint(definition), JSON.stringify(definition.irregular))
}

const keyOf = (field: string): string => {
  const { key } = keyExpression(field)
  if (key === undefined) throw new TypeError(`"${field}" cannot be indexed: an index's fields are letters, digits, "_", "-" and dots`)
  return key
}

const createIndex = (db: Database, table: Table, { name, fields, unique, required }: BuiltIndex & { name: string }): void => {
  const columns = Object.entries(fields).map(([field, direction]) => `${keyOf(field)}${direction === 1 ? '' : ' DESC'}`)
  const partial = required.map(field => `${keyOf(field)}<>${nullKey}`)
  const where = partial.length > 0 ? ` WHERE ${partial.join(' AND ')}` : ''
  try {
    db.exec(`CREATE ${unique ? 'UNIQUE ' : ''}INDEX ${quote(name)} ON ${table.sql} (${columns.join(',')})${where}`)
  } catch (error) {
    if (!isUniqueViolation(error)) throw error
    const names = Object.keys(fields).join(', ')
    throw new Error(
      `${table.name} holds documents with the same ${names}, so its unique index over them cannot be made: change or remove them first`,
      {
        cause: error,
      },
    )
  }
}

const holdsIrregular = (db: Database, table: Table, field: string): boolean =>
  db.prepare(`SELECT 1 FROM ${table.sql} WHERE ${keyOf(field)} IN (${objectKey},${arrayKey}) LIMIT 1`).get() !== undefined
