import { expect, type Check } from './check.js'
import type { Ledger } from './ledger.js'

/** What can be said once everything else is over. */
export const outputChecks = (ledger: Ledger): readonly Check[] => [
  {
    name: 'output/only-messages',
    expected: 'writes nothing but messages to stdout',
    run: async bench => {
      await (await bench.ready()).quiet(50)
      const found = ledger.noisy.summary()
      expect(found === undefined, `lines that are no messages: ${found ?? ''}`)
    },
  },
  {
    name: 'output/one-answer-each',
    expected: 'answers each request once, with the id it came with',
    run: () => {
      const found = ledger.strays.summary()
      expect(found === undefined, found ?? '')
      return Promise.resolve()
    },
  },
  {
    name: 'output/schema',
    expected: 'says nothing that is not as protocol.schema.json has it',
    run: () => {
      const found = ledger.malformed.summary()
      expect(found === undefined, found ?? '')
      return Promise.resolve()
    },
  },
  {
    name: 'output/own-folder',
    expected: 'leaves its own folder as it is: it is read only in the sandbox',
    run: async bench => {
      const changed = await bench.changedFiles()
      expect(changed.length === 0, `it changed ${changed.slice(0, 5).join(', ')}`)
    },
  },
]
