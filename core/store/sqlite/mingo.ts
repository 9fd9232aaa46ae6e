import type { JsonObject } from '../json.js'

export type Test = (document: JsonObject) => boolean

/** The parts of mingo that the store uses, loaded when something first needs them. */
export interface Mingo {
  /** The exact meaning of a filter. */
  matcher: (filter: JsonObject) => Test
  /** Changes `document` by update operators. */
  update: (document: JsonObject, update: JsonObject) => void
  aggregate: (documents: JsonObject[], pipeline: JsonObject[]) => JsonObject[]
}

let loading: Promise<Mingo> | undefined

export const loadMingo = (): Promise<Mingo> => (loading ??= load())

const load = async (): Promise<Mingo> => {
  const { Aggregator, Query, update } = await import('mingo')
  const options = { scriptEnabled: false }
  return {
    matcher(filter) {
      const query = new Query(filter, options)
      return document => query.test(document)
    },
    update(document, changes) {
      update(document, changes, [], {}, { cloneMode: 'deep', queryOptions: options })
    },
    aggregate: (documents, pipeline) => new Aggregator(pipeline, options).run<JsonObject>(documents),
  }
}
