import { defineDocumentExtractor } from '../../sdk/index.js'

/** The least that a plugin of the SDK can do: the answer is what the call brought. */
defineDocumentExtractor({ extract: ({ name }) => ({ text: name }) })
