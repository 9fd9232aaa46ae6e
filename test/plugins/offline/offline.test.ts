import assert from 'node:assert/strict'
import { z } from 'zod'
import { notFound } from '../../../core/errors.js'
import { answerOffline } from '../../../plugins/offline/answer.js'
import type { ModelTool } from '../../../plugins/models/contract.js'

const tool = (
  name: string,
  execute: ModelTool['execute'],
  parameters: z.ZodType = z.object({ query: z.string(), limit: z.number() }),
): ModelTool => ({
  name,
  description: name,
  parameters,
  execute,
})

const asked: unknown[] = []
const memory = tool('memory.search', parameters => {
  asked.push(parameters)
  return Promise.resolve([{ id: 'mem_1', text: 'Rent is due\non Friday', score: 1, createdAt: '2026-05-04T10:00:00.000Z' }])
})
const documents = tool('documents.search', () =>
  Promise.resolve([{ documentId: 'doc_1', name: 'lease.pdf', passage: 'The rent is 900.', score: 2 }]),
)
const nothing = (name: string): ModelTool => tool(name, () => Promise.resolve([]))

const answer = (content: string, tools: ModelTool[]): Promise<string> => answerOffline({ role: 'user', content }, tools)

describe('the offline provider', () => {
  it('quotes memory and documents with their sources, and asks them for the words that matter', async () => {
    asked.length = 0
    const text = await answer('When is the rent due?', [memory, documents])
    assert.match(text, /^I am offline/)
    assert.match(text, /> Rent is due\n> on Friday\n— memory, 2026-05-04/)
    assert.match(text, /> The rent is 900\.\n— document lease\.pdf/)
    assert.deepEqual(asked, [{ query: 'rent due', limit: 3 }])
  })

  it('says that it found nothing, and how to go on', async () => {
    assert.match(await answer('Who are you?', [nothing('memory.search'), nothing('documents.search')]), /offline.*nothing.*\/help/s)
    assert.match(await answer('Who are you?', []), /offline.*nothing/s)
  })

  it('offers in /help what the agent may use', async () => {
    assert.match(await answer('/help', [memory]), /\/recall/)
    assert.doesNotMatch(await answer('/help', [memory]), /\/remember|\/documents/)
    assert.match(await answer('  /HELP  ', [documents]), /\/documents/)
  })

  it('follows commands, and says what is wrong with one', async () => {
    assert.match(await answer('/documents rent', [documents]), /lease\.pdf/)
    assert.equal(await answer('/recall\nrent', [nothing('memory.search')]), 'Nothing about "rent" in memory.')
    assert.match(await answer('/recall', [memory]), /needs a text: \/recall QUERY/)
    assert.match(await answer('/remember x', [memory]), /may not use memory\.remember/)
    assert.match(await answer('/dance', [memory]), /do not know the command \/dance.*\/recall/s)
    assert.match(await answer('/ ', [memory]), /\/recall/)
  })

  it('says what did not work, without the details of unexpected errors', async () => {
    const broken = tool('documents.search', () => Promise.reject(new Error('secret path /x')))
    assert.match(await answer('rent', [memory, broken]), /Rent is due.*documents\.search did not work: an unexpected error/s)
    assert.match(
      await answer('/documents rent', [tool('documents.search', () => Promise.reject(notFound('Document')))]),
      /Document not found/,
    )
  })

  it('quotes the beginning of attached documents', async () => {
    const text = await answerOffline({ role: 'user', content: 'Sum this up', attachments: [{ name: 'a.txt', text: 'Alpha beta' }] }, [])
    assert.match(text, /> Alpha beta\n— attached document a\.txt/)
  })
})
