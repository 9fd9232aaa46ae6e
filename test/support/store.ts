import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { CollectionScope, CollectionSpec, Document, Handle, Store } from '../../core/store/collection.js'
import { scoped } from '../../core/store/scope.js'

/** Declares a collection on an open store, makes it ready and returns its handle. */
export const openCollection = async <T extends Document, S extends CollectionScope>(
  store: Store,
  name: string,
  spec: CollectionSpec<T, S>,
): Promise<Handle<CollectionSpec<T, S>>> => {
  const opened = store.collection<T>(name, spec)
  await store.ready()
  return scoped(opened, spec)
}

/** A directory of a test's own; `remove` deletes it. */
export const temporaryDirectory = async (): Promise<{ path: string; remove: () => Promise<void> }> => {
  const path = await mkdtemp(join(tmpdir(), 'agent-gateway-store-'))
  return { path, remove: () => rm(path, { recursive: true, force: true }) }
}
