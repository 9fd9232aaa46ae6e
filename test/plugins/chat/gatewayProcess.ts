/** A gateway as a process of its own, to be killed: `gatewayProcess.ts DATA_DIR KEY=VALUE...`; prints its URL. */
import { startConversations } from './conversation.js'

const [dataDir = '', ...pairs] = process.argv.slice(2)
const settings = Object.fromEntries(pairs.map(pair => [pair.slice(0, pair.indexOf('=')), pair.slice(pair.indexOf('=') + 1)]))
const { url } = await startConversations({ dataDir, settings })
process.stdout.write(`${url}\n`)
