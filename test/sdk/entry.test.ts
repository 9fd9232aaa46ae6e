import assert from 'node:assert/strict'
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { EntryError, findEntry, resolveCommand } from '../../sdk/manifest.js'

describe("the entry of a plugin's folder", () => {
  let folder: string
  const write = async (path: string, content: unknown = ''): Promise<void> => {
    await mkdir(dirname(join(folder, path)), { recursive: true })
    await writeFile(join(folder, path), typeof content === 'string' ? content : JSON.stringify(content))
  }

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'entry-'))
  })
  afterEach(() => rm(folder, { recursive: true, force: true }))

  it('is the script of its name, before one in publish/, before any runtime configuration', async () => {
    await write('other.runtimeconfig.json', { command: ['python3', 'other.py'] })
    await write('other.py')
    assert.equal((await findEntry(folder, 'mine')).kind, 'command')
    await write('publish/mine.mjs')
    assert.equal((await findEntry(folder, 'mine')).file, join('publish', 'mine.mjs'))
    await write('mine.cjs')
    assert.deepEqual(await findEntry(folder, 'mine'), { kind: 'javascript', file: 'mine.cjs', command: [] })
  })

  it('is the file of exactly that name where several could be meant', async () => {
    for (const file of ['tool.bak', 'tool', 'tool.txt']) await write(file)
    await write('tool.runtimeconfig.json', { command: ['python3', '-B', 'tool'] })
    const entry = await findEntry(folder, 'mine')
    assert.equal(entry.file, 'tool')
    assert.equal(entry.runtimeConfig, 'tool.runtimeconfig.json')
  })

  it('has a command whose words are files beside the entry, and nothing else', async () => {
    for (const file of ['publish/tool.py', 'publish/data.txt', 'root.txt', 'publish/python3']) await write(file)
    await write('publish/tool.runtimeconfig.json', { command: ['python3', '-B', 'tool.py', 'data.txt', 'root.txt'] })
    const words = resolveCommand(folder, await findEntry(folder, 'mine'))
    assert.deepEqual(words, ['python3', '-B', join(folder, 'publish/tool.py'), join(folder, 'publish/data.txt'), 'root.txt'])
  })

  it('is missing, which is said as such', async () => {
    await assert.rejects(findEntry(folder, 'mine'), (error: unknown) => error instanceof EntryError && error.missing)
  })

  it('is refused with a command that is none, a broken configuration, or a link out of the folder', async () => {
    const refused = (message: RegExp): Promise<void> =>
      assert.rejects(
        findEntry(folder, 'mine'),
        (error: unknown) => error instanceof EntryError && !error.missing && message.test(error.message),
      )
    await write('tool.py')
    for (const command of [[], 'python3 tool.py', ['python3', ''], ['a\0b'], Array(33).fill('x')]) {
      await write('tool.runtimeconfig.json', { command })
      await refused(/"command" must be an array/)
    }
    await write('tool.runtimeconfig.json', {})
    await refused(/tool\.py is no JavaScript, so "command" must say how to run it/)
    await write('tool.runtimeconfig.json', '{')
    await refused(/is not valid JSON/)
    await write('tool.runtimeconfig.json', `{"command": ["x"]}${' '.repeat(64 * 1024)}`)
    await refused(/is larger than/)
    await symlink('/etc/hostname', join(folder, 'mine.js'))
    await refused(/mine\.js leads out/)
  })
})
