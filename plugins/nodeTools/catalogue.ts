import { z } from 'zod'

/** A command as agents are offered it. */
export interface KnownCommand {
  description: string
  parameters: z.ZodObject
}

const coordinate = z.int().min(0).max(100_000)
const length = z.int().min(1).max(100_000)
const place = z.int().min(-100_000).max(100_000).optional()
const windowId = z
  .string()
  .regex(/^0x[0-9a-f]{1,8}$/)
  .meta({ description: 'As window.list tells it, for example 0x1a00003.' })
const encoding = z.enum(['utf8', 'base64']).optional().meta({ description: 'Default: utf8.' })
const path = z.string().min(1).max(4096)
const pid = z.int().min(2).meta({ description: 'The process id, as app.launch or window.list tells it.' })

/** How long it may take: for commands that may need more than their 30 s. */
export const timeout = {
  timeoutMs: z.int().min(1000).max(600_000).optional().meta({ description: 'How long it may take, in milliseconds. Default: 30000.' }),
}

const command = (description: string, parameters: z.ZodRawShape = {}): KnownCommand => ({ description, parameters: z.object(parameters) })

/**
 * The commands of the reference node, whose meaning is the same on every node that has them. In the order in which they
 * are offered: what looks before what acts.
 */
export const catalogue: ReadonlyMap<string, KnownCommand> = new Map([
  ['system.info', command('Tells about the machine: its operating system, processors, memory, disks and uptime.')],
  [
    'screen.capture',
    command('Takes a picture of the screen, of a part of it, or of a window. The picture is kept as a document of the user.', {
      region: z.object({ x: coordinate, y: coordinate, width: length, height: length }).optional(),
      windowId: windowId.optional(),
      format: z.enum(['png', 'jpeg']).optional().meta({ description: 'Default: png.' }),
      quality: z.int().min(1).max(100).optional().meta({ description: 'Of a jpeg. Default: 80.' }),
    }),
  ],
  ['screen.list', command('Lists the monitors with their places and sizes.')],
  ['window.list', command('Lists the open windows: id, title, place, size and process.')],
  ['clipboard.read', command('Reads the text in the clipboard.', { selection: z.enum(['clipboard', 'primary']).optional() })],
  [
    'file.list',
    command('Lists a folder among those that the machine shares.', {
      path: path.optional().meta({ description: 'Default: the first shared folder.' }),
      limit: z.int().min(1).max(2000).optional(),
    }),
  ],
  [
    'file.read',
    command('Reads a file, or a part of it, in the folders that the machine shares.', {
      path,
      encoding,
      offset: z.int().min(0).optional().meta({ description: 'In bytes.' }),
      length: z
        .int()
        .min(1)
        .max(8 * 1024 * 1024)
        .optional()
        .meta({ description: 'In bytes. Default: 1 MiB.' }),
    }),
  ],
  [
    'notification.show',
    command('Shows a notification on the desktop.', {
      title: z.string().min(1).max(200),
      body: z.string().max(2000).optional(),
      urgency: z.enum(['low', 'normal', 'critical']).optional(),
    }),
  ],
  [
    'audio.volume',
    command('Tells the volume of the speakers, and sets it where level or muted is given.', {
      level: z.int().min(0).max(100).optional(),
      muted: z.boolean().optional(),
    }),
  ],
  ['browser.open', command("Opens a web address in the user's browser.", { url: z.url({ protocol: /^https?$/ }).max(8000) })],
  ['window.focus', command('Brings a window to the front and gives it the focus.', { windowId })],
  [
    'window.move',
    command('Moves or resizes a window.', { windowId, x: place, y: place, width: length.optional(), height: length.optional() }),
  ],
  ['window.close', command('Asks a window to close.', { windowId })],
  [
    'app.launch',
    command('Starts a program, without a shell, and does not wait for it.', {
      program: z.string().min(1).max(1000),
      args: z.array(z.string().max(10_000)).max(100).optional(),
    }),
  ],
  ['app.close', command('Ends a program that was started on the machine or has a window.', { pid, force: z.boolean().optional() })],
  [
    'input.type',
    command('Types a text into the window that has the focus.', {
      text: z.string().min(1).max(10_000),
      delayMs: z.int().min(0).max(1000).optional(),
    }),
  ],
  [
    'input.key',
    command('Presses keys, one combination after the other.', {
      keys: z
        .array(
          z
            .string()
            .max(100)
            .regex(/^[A-Za-z0-9_]+(\+[A-Za-z0-9_]+)*$/),
        )
        .min(1)
        .max(100)
        .meta({ description: 'For example ["ctrl+c", "Return"].' }),
    }),
  ],
  ['input.move', command('Moves the mouse pointer.', { x: coordinate, y: coordinate })],
  [
    'input.click',
    command('Clicks or scrolls, where the pointer is or at a place.', {
      button: z.enum(['left', 'middle', 'right', 'scrollUp', 'scrollDown']).optional(),
      count: z.int().min(1).max(100).optional(),
      x: coordinate.optional(),
      y: coordinate.optional(),
    }),
  ],
  [
    'clipboard.write',
    command('Puts a text into the clipboard.', { text: z.string().max(1_000_000), selection: z.enum(['clipboard', 'primary']).optional() }),
  ],
  [
    'file.write',
    command('Writes a file in the folders that the machine shares.', {
      path,
      content: z.string().max(1_000_000),
      encoding,
      mode: z.enum(['create', 'replace', 'append']).optional().meta({ description: 'Default: create, which refuses to overwrite.' }),
    }),
  ],
  [
    'shell.run',
    command('Runs a program with arguments, without a shell, and waits for it. The beginning of its output comes back.', {
      program: z.string().min(1).max(1000),
      args: z.array(z.string().max(100_000)).max(1000).optional(),
      cwd: z.string().min(1).max(4096).optional(),
      input: z.string().max(1_000_000).optional().meta({ description: 'What it reads on its standard input.' }),
      ...timeout,
    }),
  ],
])

/** A command that only its node knows: its parameters go there as they are, and are checked there. */
export const unknownCommand = (name: string): KnownCommand => ({
  description: `Runs ${name}. Its parameters are known to the machine only: when they are wrong, the answer says so.`,
  parameters: z.looseObject(timeout),
})
