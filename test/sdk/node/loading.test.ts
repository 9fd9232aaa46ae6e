import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const ROOT = fileURLToPath(new URL('../../..', import.meta.url))

const asModule = (text: string): string => `data:text/javascript;base64,${Buffer.from(text).toString('base64')}`

/** Which modules a process has loaded once it has imported this. */
const loadedBy = async (entry: string): Promise<string[]> => {
  const hooks = "export const load = async (url, context, next) => (process._rawDebug('loaded ' + url), next(url, context))"
  const register = `import { register } from 'node:module'; register(${JSON.stringify(asModule(hooks))})`
  const args = ['--import', asModule(register), '--input-type=module', '--eval', `import '${entry}'`]
  const { stderr } = await promisify(execFile)(process.execPath, args, { cwd: ROOT })
  return [...stderr.matchAll(/^loaded (.*)$/gm)].map(([, url]) => url!)
}

describe('what the SDK loads', () => {
  it('is no client of the hub, for plugins, nor for nodes before they connect', async () => {
    for (const entry of ['@agent-gateway/sdk', '@agent-gateway/sdk/node']) {
      const urls = await loadedBy(entry)
      assert.ok(urls.some(url => url.includes('/sdk/dist/')))
      assert.deepEqual(
        urls.filter(url => url.includes('/node_modules/')),
        [],
      )
    }
    assert.ok((await loadedBy('socket.io-client')).some(url => url.includes('/node_modules/socket.io-client/')))
  })
})
