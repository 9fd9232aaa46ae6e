import { choice, defineCommand, integer, list, optional, string, withDefault } from '@agent-gateway/sdk/node'
import { requireDesktop, runTool } from '../execute.js'

const coordinate = integer({ min: 0, max: 100_000 })
const BUTTONS = { left: '1', middle: '2', right: '3', scrollUp: '4', scrollDown: '5' } as const

/** One keyboard, one mouse: what uses them happens one after the other. */
const shared = { lane: 'input', check: () => requireDesktop('xdotool') }
const xdotool = async (args: string[], signal: AbortSignal, input?: string): Promise<string> =>
  runTool(await requireDesktop('xdotool'), args, { signal, ...(input === undefined ? {} : { input }) })

/** Types a text into the window that has the focus. */
export const inputType = defineCommand({
  ...shared,
  name: 'input.type',
  params: { text: string(), delayMs: withDefault(integer({ min: 0, max: 1000 }), 8) },
  run: async ({ text, delayMs }, { signal }) => {
    // Not as an argument: those of every process can be read by everyone on the machine.
    await xdotool(['type', '--clearmodifiers', '--delay', String(delayMs), '--file', '-'], signal, text)
    return { length: text.length }
  },
})

/** Presses keys, one after the other: `Return`, `ctrl+c`. */
export const inputKey = defineCommand({
  ...shared,
  name: 'input.key',
  params: { keys: list(string({ pattern: /^[A-Za-z0-9_]+(\+[A-Za-z0-9_]+)*$/, maxLength: 100 })) },
  run: async ({ keys }, { signal }) => {
    await xdotool(['key', '--clearmodifiers', ...keys], signal)
    return { keys }
  },
})

/** Moves the mouse pointer. */
export const inputMove = defineCommand({
  ...shared,
  name: 'input.move',
  params: { x: coordinate, y: coordinate },
  run: async ({ x, y }, { signal }) => {
    await xdotool(['mousemove', String(x), String(y)], signal)
    return pointer(signal)
  },
})

/** Clicks, where the pointer is or at a place. */
export const inputClick = defineCommand({
  ...shared,
  name: 'input.click',
  params: {
    button: withDefault(choice('left', 'middle', 'right', 'scrollUp', 'scrollDown'), 'left'),
    count: withDefault(integer({ min: 1, max: 100 }), 1),
    x: optional(coordinate),
    y: optional(coordinate),
  },
  run: async ({ button, count, x, y }, { signal }) => {
    const at = await pointer(signal)
    if (x !== undefined || y !== undefined) await xdotool(['mousemove', String(x ?? at.x), String(y ?? at.y)], signal)
    await xdotool(['click', '--repeat', String(count), '--delay', '50', BUTTONS[button]], signal)
    return { button, count, ...(await pointer(signal)) }
  },
})

/** `X=10`, `Y=20` and others, a line each. */
const pointer = async (signal: AbortSignal): Promise<{ x: number; y: number }> => {
  const printed = await xdotool(['getmouselocation', '--shell'], signal)
  const read = (name: string): number => Number(new RegExp(`^${name}=(\\d+)$`, 'm').exec(printed)?.[1])
  return { x: read('X'), y: read('Y') }
}
