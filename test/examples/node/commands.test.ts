import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { chmod, mkdir, mkdtemp, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { send, wait } from '../../plugins/nodes/support.js'
import { login, startGateway, type TestGateway } from '../../support/gateway.js'
import { waitFor } from '../../support/waitFor.js'
import { Desktop, isInstalled, missing } from './desktop.js'
import { NodeProgram } from './nodeProcess.js'

const EVERYTHING = ['input.control', 'app.manage', 'system.info', 'screen.capture', 'screen.list', 'shell.run', 'notification.show']
  .concat(['window.list', 'window.focus', 'window.move', 'window.close', 'clipboard.read', 'clipboard.write'])
  .concat(['file.list', 'file.read', 'file.write', 'audio.volume', 'browser.open'])

describe('the commands of the reference node', () => {
  let gateway: TestGateway
  let admin: string
  let desktop: Desktop | undefined
  let node: NodeProgram
  let folder: string
  const opened = (): string => join(folder, 'opened.txt')

  const outcomeOf = async (command: string, params: Record<string, unknown> = {}, timeoutMs = 20_000) =>
    wait(gateway, admin, await send(gateway, admin, 'desk', { command, params, timeoutMs }))
  const resultOf = async (command: string, params?: Record<string, unknown>) => {
    const outcome = await outcomeOf(command, params)
    assert.equal(outcome.status, 'succeeded', JSON.stringify(outcome.error))
    return outcome.result
  }
  const errorOf = async (command: string, params?: Record<string, unknown>) => (await outcomeOf(command, params)).error

  before(async () => {
    gateway = await startGateway()
    admin = await login(gateway)
    folder = await mkdtemp(join(tmpdir(), 'node-root-'))
    if (missing('Xvfb').length === 0) {
      desktop = new Desktop()
      await desktop.start()
    }
    node = await NodeProgram.create({ ...desktop?.env, ...(await ownBrowser()), SECRET_OF_THE_NODE: 'hidden' })
    await node.pair(gateway, admin, { id: 'desk', scopes: EVERYTHING, options: ['--allow', '*', '--root', folder] })
    await node.run()
  })
  after(async () => {
    await node.remove()
    await desktop?.stop()
    await gateway.stop()
    await rm(folder, { recursive: true, force: true })
  })

  /** The user's browser is a program that writes down what it is asked to open. */
  const ownBrowser = async (): Promise<Record<string, string>> => {
    const data = join(folder, 'data')
    await mkdir(join(data, 'applications'), { recursive: true })
    const browser = join(data, 'browser')
    await writeFile(browser, `#!/bin/sh\nprintf '%s' "$1" > ${opened()}\n`)
    await chmod(browser, 0o755)
    const entry = ['[Desktop Entry]', 'Type=Application', 'Name=Test', `Exec=${browser} %u`, 'Terminal=false', '']
    await writeFile(join(data, 'applications', 'test-browser.desktop'), entry.join('\n'))
    const schemes = ['http', 'https'].map(scheme => `x-scheme-handler/${scheme}=test-browser.desktop`)
    await writeFile(join(data, 'mimeapps.list'), ['[Default Applications]', ...schemes, ''].join('\n'))
    return { XDG_DATA_HOME: data, XDG_CONFIG_HOME: data }
  }

  /** A test that needs these tools; without one of them it is skipped, and says so. */
  const needs = (tools: string[], title: string, test: () => Promise<void>): void => {
    const absent = missing(...tools)
    if (absent.length === 0) it(title, test)
    else it.skip(`${title} (${absent.join(', ')} not installed)`, test)
  }

  it('are 22, each in its family', async () => {
    const { capabilities } = (await gateway.call('GET', '/nodes/desk', { token: admin })).body
    const { stdout } = await node.call(['scopes'])
    const names = [...stdout.matchAll(/^ {2}([a-z]+\.[A-Za-z]+)/gm)].map(([, name]) => name!)
    assert.equal(names.length, 22)
    const families = 'app audio browser clipboard file input notification screen shell system window'.split(' ')
    assert.deepEqual([...new Set(names.map(name => name.split('.')[0]!))].sort(), families)
    for (const name of capabilities) assert.ok(names.includes(name))
  })

  it('tell about the machine', async () => {
    const info = await resultOf('system.info')
    assert.equal(info.platform, process.platform)
    assert.ok(info.memoryMb.total > 0 && info.cores > 0)
  })

  describe('on the screen', () => {
    needs(['Xvfb', 'scrot'], 'take a picture of it: a real PNG of its size', async () => {
      const { image, sizeBytes, format, width, height } = await resultOf('screen.capture')
      const bytes = Buffer.from(image, 'base64')
      assert.equal(bytes.toString('latin1', 1, 4), 'PNG')
      assert.equal(bytes.toString('latin1', bytes.length - 8, bytes.length - 4), 'IEND')
      assert.deepEqual([bytes.readUInt32BE(16), bytes.readUInt32BE(20)], [800, 600])
      assert.deepEqual([sizeBytes, format, width, height], [bytes.length, 'png', 800, 600])
    })

    needs(['Xvfb', 'scrot'], 'take a part of it, as JPEG', async () => {
      const region = { x: 10, y: 20, width: 300, height: 200 }
      const { image, format, width, height } = await resultOf('screen.capture', { format: 'jpeg', quality: 50, region })
      assert.equal(Buffer.from(image, 'base64').readUInt16BE(0), 0xffd8)
      assert.deepEqual([format, width, height], ['jpeg', 300, 200])
      assert.deepEqual((await errorOf('screen.capture', { region: { x: 1 } })).code, 'invalid_params')
    })

    needs(['Xvfb', 'xrandr'], 'list the monitors', async () => {
      const { screens } = await resultOf('screen.list')
      assert.deepEqual(
        screens.map(({ width, height }: { width: number; height: number }) => [width, height]),
        [[800, 600]],
      )
    })
  })

  describe('with windows', () => {
    const open = async (title: string) => {
      const { pid } = await resultOf('app.launch', { program: 'xmessage', args: ['-title', title, 'a message'] })
      return waitFor('the window', async () => {
        const { windows } = await resultOf('window.list')
        const found = windows.find((window: { title: string }) => window.title === title)
        return found && { ...found, launched: pid }
      })
    }
    const isOpen = async (id: string): Promise<boolean> =>
      (await resultOf('window.list')).windows.some((window: { windowId: string }) => window.windowId === id)
    const tools = ['Xvfb', 'openbox', 'wmctrl', 'xmessage']

    needs(tools, 'list, move, focus and close them, and take their picture', async () => {
      const { windowId, className } = await open('First of the test')
      assert.match(className, /xmessage/i)
      const moved = await resultOf('window.move', { windowId, x: 40, y: 60, width: 320, height: 180 })
      await waitFor('the window to be moved', async () => {
        const { width, height } = moved.width === 320 ? moved : (await resultOf('window.list')).windows[0]
        return width === 320 && height === 180
      })
      await resultOf('window.focus', { windowId })
      if (isInstalled('scrot')) assert.equal((await resultOf('screen.capture', { windowId })).width, 320)
      await resultOf('window.close', { windowId })
      await waitFor('the window to be closed', async () => !(await isOpen(windowId)))
      const gone = await errorOf('window.focus', { windowId })
      assert.deepEqual([gone.code, gone.details.path], ['invalid_params', 'windowId'])
    })

    needs(tools, 'end a program that was started, and none that was not', async () => {
      const { launched, windowId } = await open('Second of the test')
      assert.deepEqual(await resultOf('app.close', { pid: launched }), { pid: launched, isClosed: true })
      await waitFor('the window to be closed', async () => !(await isOpen(windowId)))
      assert.equal((await errorOf('app.close', { pid: process.pid })).code, 'invalid_params')
      const none = await errorOf('app.launch', { program: 'no-such-program' })
      assert.deepEqual([none.code, none.details.tool], ['platform_unsupported', 'no-such-program'])
    })

    needs([...tools, 'xterm', 'xdotool'], 'type, press keys, and click', async () => {
      const file = join(folder, 'typed.txt')
      const { pid } = await resultOf('app.launch', {
        program: 'xterm',
        args: ['-title', 'Typing', '-e', 'sh', '-c', 'read line; echo "$line" > "$0"', file],
      })
      const { windowId } = await waitFor('the terminal', async () =>
        (await resultOf('window.list')).windows.find((window: { title: string }) => window.title === 'Typing'),
      )
      await resultOf('window.focus', { windowId })
      const ids = []
      for (const [command, params] of [
        ['input.type', { text: 'hello; $HOME ' }],
        ['input.type', { text: 'world' }],
        ['input.key', { keys: ['exclam', 'Return'] }],
      ] as const)
        ids.push(await send(gateway, admin, 'desk', { command, params }))
      for (const id of ids) assert.equal((await wait(gateway, admin, id)).status, 'succeeded')
      const typed = await waitFor('the line', () => readFile(file, 'utf8').catch(() => ''))
      assert.equal(typed, 'hello; $HOME world!\n')
      await outcomeOf('app.close', { pid, force: true })
    })

    needs(['Xvfb', 'xdotool'], 'move the pointer, and click where it is told', async () => {
      assert.deepEqual(await resultOf('input.move', { x: 123, y: 45 }), { x: 123, y: 45 })
      assert.deepEqual(await resultOf('input.click', { button: 'right', x: 200 }), { button: 'right', count: 1, x: 200, y: 45 })
      assert.equal((await errorOf('input.key', { keys: ['a; rm -rf /'] })).code, 'invalid_params')
    })
  })

  needs(['Xvfb', 'xclip'], 'write the clipboard and read it again', async () => {
    assert.deepEqual(await resultOf('clipboard.read', { selection: 'primary' }), { text: '' })
    const text = 'Ünïcödé 😀\n"$(id)"'
    await resultOf('clipboard.write', { text })
    assert.deepEqual(await resultOf('clipboard.read'), { text })
  })

  describe('over files', () => {
    it('write, list and read them', async () => {
      await resultOf('file.write', { path: 'note.txt', content: 'one' })
      assert.equal((await errorOf('file.write', { path: 'note.txt', content: 'two' })).code, 'invalid_params')
      await resultOf('file.write', { path: 'note.txt', content: ', two', mode: 'append' })
      assert.equal((await resultOf('file.read', { path: join(folder, 'note.txt') })).content, 'one, two')
      await chmod(join(folder, 'note.txt'), 0o640)
      await resultOf('file.write', {
        path: 'note.txt',
        content: Buffer.from('three').toString('base64'),
        encoding: 'base64',
        mode: 'replace',
      })
      assert.equal((await stat(join(folder, 'note.txt'))).mode & 0o777, 0o640)
      const part = await resultOf('file.read', { path: 'note.txt', offset: 1, length: 3 })
      assert.deepEqual([part.content, part.isComplete, part.sizeBytes], ['hre', false, 5])
      const { entries } = await resultOf('file.list')
      const { type, sizeBytes } = entries.find(({ name }: { name: string }) => name === 'note.txt')
      assert.deepEqual([type, sizeBytes], ['file', 5])
    })

    it('bring a large one in parts', async () => {
      const bytes = Buffer.alloc(5_000_000, 'reference node ')
      await writeFile(join(folder, 'large.bin'), bytes)
      const { content, isComplete } = await resultOf('file.read', { path: 'large.bin', encoding: 'base64', length: 8 * 1024 * 1024 })
      assert.ok(Buffer.from(content, 'base64').equals(bytes) && isComplete)
    })

    it('reach nothing outside of the shared folders, by no way', async () => {
      await symlink('/etc', join(folder, 'out'))
      await symlink('/etc/hostname', join(folder, 'hostname'))
      await mkdir(`${folder}-beside`)
      await writeFile(join(`${folder}-beside`, 'secret'), 'secret')
      try {
        for (const path of [
          '../secret',
          '/etc/passwd',
          'out/passwd',
          `${folder}-beside/secret`,
          '/proc/self/environ',
          'hostname',
          '/etc/no-such-file',
        ]) {
          const { code, message } = await errorOf('file.read', { path })
          assert.ok(code === 'not_authorized' || (path === 'hostname' && /link/.test(message)), `${path}: ${code} ${message}`)
          assert.notEqual((await outcomeOf('file.write', { path, content: 'x', mode: 'append' })).status, 'succeeded')
        }
        assert.equal((await errorOf('file.list', { path: '..' })).code, 'not_authorized')
      } finally {
        await rm(`${folder}-beside`, { recursive: true })
      }
    })

    it('say what is wrong with a path', async () => {
      await mkdir(join(folder, 'sub'), { recursive: true })
      assert.match((await errorOf('file.read', { path: 'sub' })).message, /no file|a folder/)
      assert.match((await errorOf('file.read', { path: 'none/x' })).message, /there is no/)
      assert.match((await errorOf('file.list', { path: 'note-missing' })).message, /there is no/)
    })
  })

  describe('of the shell', () => {
    it('run a program with its arguments as they are, and nothing of the node in its environment', async () => {
      const args = ['-c', 'printf "%s|" "$@"; cat; echo oops >&2; exit 3', 'sh', '$(id)', '*', 'a b']
      const done = await resultOf('shell.run', { program: 'sh', args, input: 'from stdin', cwd: folder })
      assert.deepEqual([done.exitCode, done.stdout, done.stderr], [3, '$(id)|*|a b|from stdin', 'oops\n'])
      assert.doesNotMatch((await resultOf('shell.run', { program: 'env' })).stdout, /SECRET_OF_THE_NODE/)
      for (const program of ['ls; id', folder, '/']) assert.equal((await errorOf('shell.run', { program })).code, 'platform_unsupported')
      assert.match((await errorOf('shell.run', { program: 'ls', cwd: '/no/such/folder' })).message, /could not be started/)
      assert.equal((await outcomeOf('system.info')).status, 'succeeded')
    })

    it('keep the beginning of what is printed, and end with everything they started', async () => {
      const { stdout, truncated } = await resultOf('shell.run', { program: 'head', args: ['-c', '3000000', '/dev/zero'] })
      assert.deepEqual([stdout.length, truncated], [1_048_576, ['stdout']])
      const marker = join(folder, 'alive')
      const script = `(while :; do date +%N > ${marker}; sleep 0.05; done) & wait`
      // Until it had the time to begin.
      for (let timeoutMs = 500; !existsSync(marker); timeoutMs *= 2) {
        const late = await outcomeOf('shell.run', { program: 'sh', args: ['-c', script] }, timeoutMs)
        assert.equal(late.status, 'timed_out')
      }
      let last = ''
      await waitFor('what it started to end', async () => {
        const before = last
        last = await readFile(marker, 'utf8')
        await new Promise(resolve => setTimeout(resolve, 150))
        return last !== '' && last === before
      })
    })
  })

  needs(['Xvfb', 'notify-send', 'dunst', 'dbus-daemon'], 'show a notification', async () => {
    const bus = desktop!.spawn('dbus-daemon', ['--session', '--nofork', '--print-address'])
    let address = ''
    bus.stdout?.on('data', (chunk: Buffer) => (address += chunk.toString()))
    const env = { ...desktop!.env, DBUS_SESSION_BUS_ADDRESS: await waitFor('the bus', () => /^(\S+)\n/.exec(address)?.[1]) }
    const shown = desktop!.spawn('dunst', ['-print'], env)
    let printed = ''
    shown.stdout?.on('data', (chunk: Buffer) => (printed += chunk.toString()))
    const notified = await NodeProgram.create(env)
    try {
      await notified.adopt(gateway, admin, { id: 'notified', scopes: ['notification.show'] })
      await notified.run()
      const params = { title: '-t of the test', body: 'It is done', urgency: 'critical' }
      const shownOnce = async () =>
        (await wait(gateway, admin, await send(gateway, admin, 'notified', { command: 'notification.show', params }))).status
      await waitFor('a notification daemon', async () => (await shownOnce()) === 'succeeded')
      await waitFor('the notification', () => printed.includes('-t of the test') && printed.includes('It is done'))
    } finally {
      await notified.remove()
    }
  })

  needs(['pulseaudio', 'pactl'], 'set the volume and tell it', async () => {
    const runtime = await mkdtemp(join(tmpdir(), 'node-audio-'))
    const socket = join(runtime, 'native')
    const args = ['-n', '--daemonize=no', '--exit-idle-time=-1', '--use-pid-file=no', '--disallow-exit', '-L', 'module-null-sink']
    const server = new Desktop()
    const env = { PATH: process.env.PATH ?? '', HOME: runtime, XDG_RUNTIME_DIR: runtime }
    server.spawn('pulseaudio', [...args, '-L', `module-native-protocol-unix socket=${socket} auth-anonymous=1`], env)
    const loud = await NodeProgram.create({ PULSE_SERVER: `unix:${socket}`, HOME: runtime })
    try {
      await waitFor('the sound server', () => stat(socket).catch(() => undefined))
      await loud.adopt(gateway, admin, { id: 'loud', scopes: ['audio.volume'] })
      await loud.call(['scopes', '--allow', 'audio.volume'])
      await loud.run()
      const volume = async (params: Record<string, unknown>) =>
        (await wait(gateway, admin, await send(gateway, admin, 'loud', { command: 'audio.volume', params }))).result
      assert.deepEqual(await volume({ level: 40, muted: true }), { level: 40, muted: true })
      assert.deepEqual(await volume({ muted: false }), { level: 40, muted: false })
    } finally {
      await loud.remove()
      await server.stop()
      await rm(runtime, { recursive: true, force: true })
    }
  })

  needs(['Xvfb', 'xdg-open'], 'open a web address, and nothing else', async () => {
    await resultOf('browser.open', { url: 'https://example.com/?q=a b&c=$(id)' })
    const url = await waitFor('the browser', () => readFile(opened(), 'utf8').catch(() => ''))
    assert.equal(url, 'https://example.com/?q=a%20b&c=$(id)')
    for (const wrong of ['file:///etc/passwd', 'javascript:alert(1)', '--help'])
      assert.equal((await errorOf('browser.open', { url: wrong })).code, 'invalid_params')
  })

  it('say which tool or display is missing', async () => {
    const bare = await NodeProgram.create({ PATH: '/nonexistent' })
    try {
      await bare.pair(gateway, admin, { id: 'bare', scopes: EVERYTHING, options: ['--allow', '*'] })
      await bare.run()
      const errorHere = async (command: string) => (await wait(gateway, admin, await send(gateway, admin, 'bare', { command }))).error
      const capture = await errorHere('screen.capture')
      assert.deepEqual([capture.code, /DISPLAY|Linux/.test(capture.message)], ['platform_unsupported', true])
      const volume = await errorHere('audio.volume')
      assert.deepEqual([volume.code, volume.details], ['platform_unsupported', { tool: 'pactl' }])
      const { capabilities } = (await gateway.call('GET', '/nodes/bare', { token: admin })).body
      assert.ok(capabilities.includes('system.info') && !capabilities.includes('screen.capture'))
    } finally {
      await bare.remove()
    }
  })
})
