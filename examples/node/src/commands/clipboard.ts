import { choice, CommandError, defineCommand, string, withDefault } from '@agent-gateway/sdk/node'
import { execute, requireDesktop, runTool, toolFailed } from '../execute.js'

const MAX_TEXT_BYTES = 4 * 1024 * 1024

const shared = { lane: 'clipboard', check: () => requireDesktop('xclip') }
const selection = withDefault(choice('clipboard', 'primary'), 'clipboard')

/** The text in the clipboard; empty where there is none. */
export const clipboardRead = defineCommand({
  ...shared,
  name: 'clipboard.read',
  params: { selection },
  repeatable: true,
  run: async ({ selection: name }, { signal }) => {
    const tool = await requireDesktop('xclip')
    const args = ['-selection', name, '-out', '-target', 'UTF8_STRING']
    const { exitCode, stdout, stderr, truncated } = await execute(tool, args, { signal, maxOutputBytes: MAX_TEXT_BYTES })
    // So it says that the clipboard is empty, or holds no text.
    if (exitCode !== 0 && /target \S+ not available/.test(stderr.toString())) return { text: '' }
    if (exitCode !== 0) throw toolFailed(tool, exitCode, stderr)
    if (truncated.length > 0) throw new CommandError('internal_error', `The clipboard holds more than ${MAX_TEXT_BYTES} bytes`)
    return { text: stdout.toString('utf8') }
  },
})

/** Puts a text into the clipboard. */
export const clipboardWrite = defineCommand({
  ...shared,
  name: 'clipboard.write',
  params: { selection, text: string({ minLength: 0, maxLength: 1_000_000 }) },
  run: async ({ selection: name, text }, { signal }) => {
    // It goes on in the background, to hand the text out.
    await runTool(await requireDesktop('xclip'), ['-selection', name, '-in'], { signal, input: text, ignoresOutput: true })
    return { length: text.length }
  },
})
