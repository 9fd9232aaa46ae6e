import type { CollectionScope, CollectionSpec, Document, Index, Sort } from './collection.js'

/** An index as an engine builds it. */
export interface BuiltIndex {
  /** All of its fields, those of the scope included. */
  fields: Sort
  /** The fields as they were declared: what a `DuplicateKey` names. */
  declared: string[]
  unique: boolean
  /** Documents without one of these take no part. */
  required: string[]
}

/** The fields that bind a document of a scoped collection to its owner. */
export const scopeFields = (scope: CollectionScope): ('tenant' | 'userId')[] =>
  scope === 'user' ? ['tenant', 'userId'] : scope === 'tenant' ? ['tenant'] : []

/** All indexes of a collection: the declared ones within their scope, the scope's own and the one of the expiry sweep. */
export const builtIndexes = ({ scope, indexes, expires }: CollectionSpec<Document>): BuiltIndex[] => {
  const owner = scopeFields(scope)
  const built = indexes.map(index => build(index, index.acrossOwners ? [] : owner))
  if (owner.length > 0) built.push(build({ fields: { createdAt: 1, id: 1 } }, owner))
  if (expires) built.push(build({ fields: { expiresAt: 1 }, sparse: true }, []))
  return [...new Map(built.map(index => [JSON.stringify(index), index])).values()]
}

const build = ({ fields, unique = false, sparse = false }: Index, owner: string[]): BuiltIndex => {
  const declared = Object.keys(fields)
  return {
    fields: { ...Object.fromEntries(owner.map(field => [field, 1] as const)), ...fields },
    declared,
    unique,
    required: sparse ? declared : [],
  }
}
